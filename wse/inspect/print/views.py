"""What ``wse inspect`` prints, view by view."""

from __future__ import annotations

from typing import Any, Final, TextIO

from rich.console import Console

from wse.inspect.print.diff import print_diff
from wse.inspect.print.groups import print_groups
from wse.inspect.print.links import print_links
from wse.inspect.print.pe import print_pe
from wse.inspect.print.steps import print_steps
from wse.inspect.print.summary import print_summary
from wse.inspect.print.tokens import print_tensors, print_tokens
from wse.inspect.print.tree import print_tree
from wse.inspect.print.wavelets import print_moves
from wse.report.terminal import console_on, count, shown

INCOMPLETE: Final = {
    1: "This trace is incomplete: the run goes on or was stopped. It holds what was written until then.",
    2: "A trace is incomplete: its run goes on or was stopped. It holds what was written until then.",
}


def print_inspected(facts: dict[str, Any], stream: TextIO, *, top: int | None) -> None:
    """Print a view of a trace. ``top``: how many rows were asked for, None where nobody said."""
    console = console_on(stream)
    view = facts["view"]
    if view == "check":
        _print_check(console, facts)
        return
    if not facts["complete"]:
        console.print()
        console.print(INCOMPLETE[len(facts.get("traces", [0]))])
    if view == "by":
        print_groups(console, facts, top)
    elif view == "tokens":
        print_tokens(console, facts, top)
    elif view == "cycles":
        print_moves(console, facts["wavelets"])
    else:
        _PRINT[view](console, facts)


def _print_check(console: Console, facts: dict[str, Any]) -> None:
    """One line on a sound trace, a line for each problem of another."""
    trace = shown(facts["trace"])
    if facts["sound"]:
        ended = "" if facts["complete"] else ", incomplete: its run goes on or was stopped"
        held = f"{count(facts['datasets'])} datasets, {count(facts['rows'])} rows"
        console.print(f"{trace}: sound: trace format {facts['version']}, {held}{ended}", soft_wrap=True)
        return
    number = len(facts["problems"])
    console.print(f"{trace}: {count(number)} problem{'' if number == 1 else 's'}", soft_wrap=True)
    for problem in facts["problems"]:
        console.print(f"  {shown(problem)}", soft_wrap=True)


_PRINT: Final = {
    "summary": print_summary,
    "steps": print_steps,
    "links": print_links,
    "pe": print_pe,
    "tensors": print_tensors,
    "tree": print_tree,
    "diff": print_diff,
}
