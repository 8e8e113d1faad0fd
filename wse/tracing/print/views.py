"""Output of ``wse export``, and of ``wse inspect``: tokens, tensors, and how to print every other view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TextIO

from rich.console import Console

from wse.reports.number_text import count, in_bytes, plural, seconds
from wse.reports.table import Column, Table
from wse.reports.terminal import console_on, heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.export.files import ExportResult
from wse.tracing.print.diff import print_diff
from wse.tracing.print.links import print_links, print_moves
from wse.tracing.print.pe import print_dump, print_pe
from wse.tracing.print.steps import print_groups, print_steps, print_tree
from wse.tracing.print.summary import print_summary
from wse.tracing.query.costs.groups import GroupsView
from wse.tracing.query.costs.tree import TreeView
from wse.tracing.query.places.contents import DumpView
from wse.tracing.query.tokens import TensorsView, TokensView, TokenTime
from wse.tracing.query.two_traces.diff import DiffView
from wse.tracing.query.view import CheckView, View, outcome_of


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
        _number("min", "min", lambda tensor: _four_digits(tensor.min)),
        _number("max", "max", lambda tensor: _four_digits(tensor.max)),
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


def print_view(view: View, stream: TextIO, *, top: int | None, each_layer: bool = False, as_hex: bool = False) -> None:
    """Print a view of a trace, after a warning if the trace is incomplete.

    Args:
        view: View to print.
        stream: Stream to print to.
        top: Number of rows that the user requested, or None.
        each_layer: Whether to print every layer of a tree, even if layers have equal cycles.
        as_hex: Whether to print the contents of a buffer as hexadecimal bytes.
    """
    console = console_on(stream)
    if isinstance(view, CheckView):
        _print_check(console, view)
        return
    if not view.complete:
        console.print()
        subject = "A" if isinstance(view, DiffView) else "This"
        console.print(
            f"{subject} trace is incomplete: {outcome_of(view.ending)}. It holds what was written until then."
        )
    if isinstance(view, GroupsView):
        print_groups(console, view, top)
    elif isinstance(view, TokensView):
        print_tokens(console, view, top)
    elif isinstance(view, DumpView):
        print_dump(console, view, top, as_hex=as_hex)
    elif isinstance(view, TreeView):
        print_tree(console, view, each_layer=each_layer)
    else:
        _PRINT[view.view](console, view)


def _print_check(console: Console, view: CheckView) -> None:
    """Print the result of ``wse inspect --check``: one line, or one line per problem."""
    trace = printable(view.trace)
    if view.sound:
        ended = "" if view.complete else f", incomplete: {outcome_of(view.ending)}"
        contents = f"{count(view.datasets or 0)} datasets, {count(view.rows or 0)} rows"
        console.print(f"{trace}: sound: trace format {view.version}, {contents}{ended}", soft_wrap=True)
        return
    number = len(view.problems)
    console.print(f"{trace}: {count(number)} problem{'' if number == 1 else 's'}", soft_wrap=True)
    for problem in view.problems:
        console.print(f"  {printable(problem)}", soft_wrap=True)


_PRINT: Final[dict[str, Callable[[Console, Any], None]]] = {
    "summary": print_summary,
    "steps": print_steps,
    "links": print_links,
    "pe": print_pe,
    "tensors": print_tensors,
    "cycles": print_moves,
    "diff": print_diff,
}

_OPEN: Final = {
    "perfetto": "https://ui.perfetto.dev, or chrome://tracing; 1 µs there is 1 cycle",
    "simulator-log": "wse-viz, as a trace file; row 0 is at the bottom there",
}


def print_export(report: ExportResult, stream: TextIO) -> None:
    """Print what an export wrote: the files, their contents, and the program that opens them."""
    console = console_on(stream)
    heading(console, f"Export to {report.to}", "of a run that was not completed" if report.incomplete else "")
    rows = [("trace", printable(report.trace)), ("written", printable(report.out))]
    if report.files is not None:
        rows.append(("files", ", ".join(report.files)))
    amounts = {"row": report.rows, "slice": report.slices, "wavelet": report.wavelets, "event": report.events}
    counts = [plural(amount, name) for name, amount in amounts.items() if amount is not None]
    if report.tokens is not None:
        counts.append(f"tokens {report.tokens[0]} to {report.tokens[1]}")
    if counts:
        rows.append(("in it", ", ".join(counts)))
    if report.left_out_passes:
        left_out, first = report.left_out_passes, report.first_generated_token
        passes = f"{left_out:,} {'pass' if left_out == 1 else 'passes'}"
        range_hint = (
            "FROM-TO shows others" if first is None else f"{max(0, first - 9)}-{first} shows the end of the prompt"
        )
        rows.append(("omitted", f"{passes}, prompts first: more than a viewer takes; --tokens {range_hint}"))
    if report.to in _OPEN:
        rows.append(("open in", _OPEN[report.to]))
    lines(console, rows)
