"""What ``wse inspect --steps`` prints."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from wse.report.terminal import count, heading, lines, plain_table, short, show, shown

ORDERED: Final = {
    "cycles": "those with the most cycles first",
    "words": "those that send the most words first",
    "hops": "those whose wavelets cross the most links first",
    "hops-cycles": "those with the most cycles of hops first",
    "start": "the earliest first",
}
"""How each order reads; a cause is its cycles."""


def print_steps(console: Console, facts: dict[str, Any]) -> None:
    """Print steps in the order that was asked for."""
    order = facts["sort"]
    ordered = ORDERED.get(order, f"those with the most cycles of {order} first")
    heading(console, "Steps", f"summed over the run, {ordered}")
    print_step_rows(console, facts["steps"], order)
    if not facts["steps"]:
        lines(console, [("none", "")])


def print_step_rows(console: Console, steps: list[dict[str, Any]], order: str) -> None:
    """A row a step: what it is, how often it ran, its cycles, what it sends, and what it was ordered by."""
    cause = order.removesuffix("-cycles") if order not in ("cycles", "words", "hops", "start") else ""
    extra = f"of {cause}" if cause else "first start" if order == "start" else ""
    traffic = [name for name in ("words", "hops") if console.width >= 90 or order == name]
    mostly = ["mostly"] if console.width >= 90 or len(traffic) + bool(extra) == 0 else []
    names = ["phase", "op", "kernel or pattern", "times", "cycles", *([extra] if extra else []), *traffic, *mostly]
    table = plain_table(header=True)
    for name in names:
        left = name in ("phase", "op", "kernel or pattern", "mostly")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "op", overflow="fold")
    for step in steps:
        by = step["cycles_by"]
        value = by[cause] if cause else step["start_cycle"]
        table.add_row(
            step["phase"],
            shown(step["op"]),
            shown(step["name"]),
            count(step["times"]),
            count(step["cycles"]),
            *([count(value)] if extra else []),
            *(short(step[name]) for name in traffic),
            *(max(by, key=lambda each: by[each]) for _ in mostly),
        )
    if steps:
        show(console, table)
