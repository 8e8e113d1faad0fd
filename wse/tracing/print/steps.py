"""Print-out of ``wse inspect --steps``: the steps of a run in a requested order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from wse.reports.table import Column, Table, number
from wse.reports.terminal import count, lines, percent, short_number
from wse.reports.terminal_table import print_table
from wse.tracing.print.folds import op_text
from wse.tracing.query.costs.folds import op_in_layer
from wse.tracing.query.costs.steps import Step, StepsView

ORDER_TEXTS: Final = {
    "cycles": "those with the most cycles first",
    "words": "those that send the most words first",
    "hops": "those whose wavelets cross the most links first",
    "hops-cycles": "those with the most cycles of hops first",
    "start": "the earliest first",
}
"""Description of each order, except for causes: those with the most cycles of the cause first."""


def print_steps(console: Console, view: StepsView) -> None:
    """Print a table of the executed steps in the order that the user requested."""
    order = ORDER_TEXTS.get(view.sort, f"those with the most cycles of {view.sort} first")
    print_table(console, step_table(view.steps, view.sort, title="Steps", note=f"summed over the run, {order}"))
    if not view.steps:
        lines(console, [("none", "")])


def step_table(steps: Sequence[Step], order: str = "cycles", *, title: str, note: str) -> Table:
    """Return a table with a row for each step or each group of equal steps.

    Args:
        steps: Steps in display order.
        order: What the steps are sorted by: a column, a cause, or a cause followed by ``-cycles``.
            The number by which they are sorted is always shown, even on a narrow terminal.
        title: Title of the table.
        note: Remark after the title.
    """
    spare = {"words": 3, "hops": 4, "times": 2, "mostly": 1 if order == "cycles" else 5, order: 0}
    columns = (
        Column(key="phase", title="phase"),
        Column(key="op", title="op", cell=_op, wraps=True, min_width=15),
        Column(key="name", title="kernel, pattern", wraps=True, min_width=12),
        number("times", "times", priority=spare["times"]),
        number("cycles", "cycles"),
        number("fraction", "share", percent),
        *_order_columns(order),
        number("words", "words", short_number, priority=spare["words"]),
        number("hops", "hops", short_number, priority=spare["hops"]),
        Column(key="mostly", title="mostly", priority=spare["mostly"]),
    )
    return Table(columns=columns, rows=steps, title=title, note=note)


def _op(step: Step) -> str:
    """Return the op of a step as text, with the layers of all equal steps."""
    return op_text(op_in_layer(step.op, step.layer), step.layers, step.count)


def _order_columns(order: str) -> list[Column]:
    """Return an additional column for the number by which steps are sorted, as a list.

    The list is empty if the table shows this number anyway.
    """
    if order in ("cycles", "words", "hops"):
        return []
    if order == "start":
        start = number("start_cycle", "first start")
        return [start]
    cause = order.removesuffix("-cycles")
    return [Column(key=order, title=f"of {cause}", cell=lambda step: count(step.cycles_by[cause]), numeric=True)]
