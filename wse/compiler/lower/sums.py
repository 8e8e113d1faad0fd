"""Sums over the lines of a region and over the columns of its head groups: every reduce that a lowering asks for."""

from __future__ import annotations

from wse.compiler.lower import between_wafers
from wse.compiler.lower.context import Context
from wse.compiler.state import At, Num, SymBuffer
from wse.program.steps import ROWS
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival


def all_reduce(
    c: Context,
    axis: int,
    buffer: At | SymBuffer,
    elements: int | Num,
    arrival: Arrival = Arrival.ADD,
    count: SymBuffer | None = None,
    *,
    over_rows: int = 0,
) -> None:
    """K-tree all-reduce over whole lines; ``count`` as in `PhaseBuilder.line`.

    ``over_rows``: elements without padding that all rows together have, along rows; 0 where all have the same.
    """
    if axis == ROWS and c.cut.span > 1:
        at = At(buffer=buffer) if isinstance(buffer, SymBuffer) else buffer
        assert isinstance(elements, int)
        if over_rows:
            between_wafers.all_reduce(c, at, elements, arrival, real=over_rows, only_row=None)
        else:
            between_wafers.all_reduce_of_one_row(c, at, elements, arrival)
        return
    length, lines = c.lines(axis)
    pattern = c.patterns.get(k_tree, length, lines, arrival, broadcast=True, groups=c.groups(length))
    c.builder.line(pattern, axis, buffer, elements, count=count)


def reduce_in_groups(c: Context, buffer: SymBuffer, elements: int | Num) -> None:
    """All-reduce of sums inside the columns of each head group."""
    segments = c.cut.heads.segments
    if len(segments) < c.cut.span:  # wafers share heads
        _reduce_in_teams(c, buffer, elements)
    elif any(count > 1 for _, count in segments):
        groups = c.groups(max(count for _, count in segments))
        pattern = c.patterns.get(
            k_tree, c.cut.cols, c.cut.rows, Arrival.ADD, broadcast=True, segments=segments, groups=groups
        )
        c.builder.line(pattern, ROWS, buffer, elements)


def _reduce_in_teams(c: Context, buffer: SymBuffer, elements: int | Num) -> None:
    """The same where a head group has whole wafers. What varies with cache slots differs from row to row."""
    at, teams = At(buffer=buffer), len(c.cut.heads.segments)
    if isinstance(elements, Num):
        real = Num(per_slot=elements.per_slot * c.cut.rows)
        between_wafers.all_reduce(c, at, elements, Arrival.ADD, real=real, only_row=None, teams=teams)
    else:
        between_wafers.all_reduce_of_one_row(c, at, elements, Arrival.ADD, teams)
