"""Print-outs of ``wse inspect --tokens`` and ``--tensors``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from wse.reports.table import Column, Table
from wse.reports.terminal import count, in_bytes, lines, printable, seconds
from wse.reports.terminal_table import print_table
from wse.tracing.query.tokens import TensorsView, TokensView, TokenTime


def print_tokens(console: Console, view: TokensView, top: int | None) -> None:
    """Print a row for each token with its text, and the cycles and time since the previous token.

    Args:
        console: Console to print to.
        view: Tokens to print.
        top: Number of tokens that the user requested, slowest first. None means that all tokens are
            printed in order.
    """
    tokens = view.tokens
    has_users = len({token.sequence for token in tokens}) > 1
    is_known = any(token.id is not None for token in tokens)
    columns = (
        _number("token", "token"),
        *([_number("sequence", "sequence")] if has_users else []),
        _number("position", "position", priority=1),
        Column(key="of", title="of"),
        *([_number("id", "id", priority=2)] if is_known else []),
        *([Column(key="text", title="text", cell=_text, wraps=True)] if is_known else []),
        _number("pass_", "pass", lambda token: str(token.pass_) if token.pass_ >= 0 else ""),
        _number("cycles", "cycles", lambda token: count(token.cycles) if token.cycles else ""),
        _number("s", "time", lambda token: seconds(token.s) if token.cycles else ""),
        _number("wall_s", "emulated in", lambda token: seconds(token.wall_s) if token.wall_s else "", priority=3),
    )
    order = "in order" if top is None else "those with the most cycles first"
    print_table(console, Table(title="Tokens", note=order, columns=columns, rows=tokens))
    if not tokens:
        lines(console, [("none", "")])


def print_tensors(console: Console, view: TensorsView) -> None:
    """Print a row for each recorded tensor: op, pass, shape, type, size and value range."""
    columns = (
        _number("tensor", "tensor"),
        Column(key="op", title="op", wraps=True),
        _number("pass_", "pass"),
        Column(key="shape", title="shape", cell=lambda tensor: "x".join(map(str, tensor.shape))),
        Column(key="dtype", title="type"),
        _number("bytes", "size", lambda tensor: in_bytes(tensor.bytes)),
        _number("min", "least", lambda tensor: _four_digits(tensor.min)),
        _number("max", "largest", lambda tensor: _four_digits(tensor.max)),
        _number("mean", "mean", lambda tensor: _four_digits(tensor.mean)),
        _number("nonfinite", "not finite", lambda tensor: count(tensor.nonfinite) if tensor.nonfinite else ""),
    )
    table = Table(title="Tensors", note="values of the finite elements", columns=columns, rows=view.tensors)
    print_table(console, table)


def _number(key: str, title: str, cell: Callable[[Any], str] | None = None, priority: int = 0) -> Column:
    """Return a numeric table column.

    Args:
        key: Key of the values in a row.
        title: Heading.
        cell: Function that returns the text of a row's cell. None prints the value itself.
        priority: On a narrow terminal, columns with the highest priority are omitted first.
    """
    return Column(key=key, title=title, cell=cell, numeric=True, priority=priority)


def _text(token: TokenTime) -> str:
    """Return the text of a token in quotes, or "" if it is unknown."""
    return "" if token.text is None else printable(repr(token.text))


def _four_digits(value: float | None) -> str:
    """Return a number with four significant digits, or "" for None."""
    return "" if value is None else f"{value:.4g}"
