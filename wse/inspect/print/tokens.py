"""What ``wse inspect --tokens`` and ``--tensors`` print."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import count, heading, in_bytes, lines, plain_table, seconds, show, shown


def print_tokens(console: Console, facts: dict[str, Any], top: int | None) -> None:
    """A row a token: what it is, and the cycles and the time since the token before it."""
    tokens = facts["tokens"]
    heading(console, "Tokens", "in order" if top is None else "those with the most cycles first")
    if not tokens:
        lines(console, [("none", "")])
        return
    several = len({token["sequence"] for token in tokens}) > 1
    known = any("id" in token for token in tokens)
    names = ["token", *(["sequence"] if several else []), "position", "of", *(["id", "text"] if known else [])]
    names += ["pass", "cycles", "time", "emulated in"]
    table = plain_table(header=True)
    for name in names:
        table.add_column(name, justify="left" if name in ("of", "text") else "right", no_wrap=name != "text")
    for token in tokens:
        cells = [str(token["token"]), *([str(token["sequence"])] if several else []), str(token["position"])]
        cells += [token["of"], *([str(token.get("id", "")), _text(token)] if known else [])]
        cells.append(str(token["pass"]) if token["pass"] >= 0 else "")
        spent = token["cycles"]
        cells += [count(spent), seconds(token["s"])] if spent else ["", ""]
        cells.append(seconds(token["wall_s"]) if token["wall_s"] else "")
        table.add_row(*cells)
    show(console, table)


def _text(token: dict[str, Any]) -> str:
    return shown(repr(token["text"])) if "text" in token else ""


def print_tensors(console: Console, facts: dict[str, Any]) -> None:
    """A row a tensor."""
    heading(console, "Tensors", "values of the finite elements")
    table = plain_table(header=True)
    for name in ("tensor", "op", "pass", "shape", "type", "size", "least", "largest", "mean", "not finite"):
        left = name in ("op", "shape", "type")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "op", overflow="fold")
    for tensor in facts["tensors"]:
        values = [f"{tensor[name]:.4g}" if name in tensor else "" for name in ("min", "max", "mean")]
        shape = "x".join(map(str, tensor["shape"]))
        size = in_bytes(tensor["bytes"])
        table.add_row(
            str(tensor["tensor"]),
            shown(tensor["op"]),
            str(tensor["pass"]),
            shape,
            tensor["dtype"],
            size,
            *values,
            count(tensor["nonfinite"]) if tensor["nonfinite"] else "",
        )
    show(console, table)
