"""Print-outs of ``wse inspect``: selects the function that prints each kind of view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TextIO

from rich.console import Console

from wse.reports.terminal import console_on, count, printable
from wse.tracing.print.diff import print_diff
from wse.tracing.print.links import print_links, print_moves
from wse.tracing.print.pe import print_dump, print_pe
from wse.tracing.print.steps import print_groups, print_steps, print_tree
from wse.tracing.print.summary import print_summary
from wse.tracing.print.tokens import print_tensors, print_tokens
from wse.tracing.query.costs.groups import GroupsView
from wse.tracing.query.costs.tree import TreeView
from wse.tracing.query.places.contents import DumpView
from wse.tracing.query.tokens import TokensView
from wse.tracing.query.two_traces.diff import DiffView
from wse.tracing.query.view import CheckView, View, outcome_of


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
