"""What ``wse inspect --tree`` prints."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import bar, count, heading, percent, plain_table, show, shown

Node = dict[str, Any]


def print_tree(console: Console, facts: dict[str, Any]) -> None:
    """Print the ops under their layers; consecutive layers that cost the same are told once."""
    phase = "decode" if "decode" in facts["phases"] else "prefill"
    what = "of a generated token" if phase == "decode" else "of a mean chunk of the prompt"
    heading(console, "Ops", f"cycles {what}")
    total = sum(node[phase] for node in facts["tree"]) or 1.0
    width = 20 if console.width < 90 else 36
    table = plain_table()
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for node, stands_for in _folded(facts["tree"]):
        inside = node["layer"] >= 0
        if inside:
            share = node[phase] / total
            last = node["layer"] + stands_for - 1
            name = f"layer {last}" if stands_for == 1 else f"each of layers {node['layer']} to {last}"
            table.add_row(name, count(node[phase]), percent(share), bar(share, width, "weights"), style="bold")
        for index, op in enumerate(node["ops"]):
            branch = ("└─ " if index == len(node["ops"]) - 1 else "├─ ") if inside else ""
            name = shown(op["op"]).removeprefix(f"layers.{node['layer']}.")
            share = op[phase] / total
            table.add_row(f"{branch}{name}", count(op[phase]), percent(share), bar(share, width, "compute"))
    show(console, table)


def _folded(tree: list[Node]) -> list[tuple[Node, int]]:
    """The tree's nodes, consecutive layers that cost the same as one, and how many each stands for."""
    folded: list[tuple[Node, int]] = []
    for node in tree:
        if folded and min(node["layer"], folded[-1][0]["layer"]) >= 0 and _costs(node) == _costs(folded[-1][0]):
            folded[-1] = (folded[-1][0], folded[-1][1] + 1)
        else:
            folded.append((node, 1))
    return folded


def _costs(node: Node) -> list[tuple[float, float]]:
    return [(op["prefill"], op["decode"]) for op in node["ops"]]
