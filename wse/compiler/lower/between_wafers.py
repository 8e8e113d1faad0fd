"""Sums and copies along rows where a region spans wafers: inside each wafer, between wafers, and inside each again."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.state import At, Num
from wse.hardware.spec import WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.between_wafers import BetweenWafers
from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.between_wafers import all_to_all, from_one
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival


def all_reduce(
    c: Context, at: At, elements: int | Num, arrival: Arrival, *, real: int | Num, only_row: int | None, teams: int = 1
) -> None:
    """Combine what the PEs of a row, or of the part of it on the wafers of a team, have at ``at``.

    ``real``: elements without padding that a wafer sends, of all rows that take part.
    """
    cols, rows, wafers, each, view = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer, at.buffer.view
    segments, groups = tuple((wafer * each, each) for wafer in range(wafers)), c.groups(each)
    place = root_of(each, groups)
    reduce_ = c.patterns.get(k_tree, cols, rows, arrival, broadcast=False, segments=segments, groups=groups)
    c.builder.line(reduce_, ROWS, at, elements, only_row=only_row)
    combined = c.temp(f"of_all_wafers_{view}", at.buffer.elements, view, "buffers")
    element_bytes = ELEMENT_BYTES[c.options.element_type(view)]
    part, rounds, payload = elements, 1, _times(real, element_bytes)
    if arrival == Arrival.ADD and teams == 1 and isinstance(real, int) and isinstance(elements, int):
        in_parts = 2 * ceil_div(real, wafers) * element_bytes
        if _link_s(c.wafer, 2, in_parts, wafers) < _link_s(c.wafer, 1, real * element_bytes, wafers):
            part, rounds, payload = ceil_div(elements, wafers), 2, in_parts
    c.builder.transfer(
        BetweenWafers,
        at,
        pattern=c.patterns.get(all_to_all, cols, rows, wafers, place, arrival, teams),
        only_row=only_row,
        target=combined,
        elements=elements,
        source_col=place,
        target_col=place,
        round_count=rounds,
        latencies=rounds,
        part=part,
        bytes=payload,
    )
    c.builder.line(
        c.patterns.get(multicast, cols, rows, place, wafers), ROWS, combined, elements, target=at, only_row=only_row
    )


def all_reduce_of_one_row(c: Context, at: At, elements: int, arrival: Arrival, teams: int = 1) -> None:
    """`all_reduce` of what all rows have alike: on one row, whose PEs then send down their columns."""
    row = root_of(c.cut.rows)
    all_reduce(c, at, elements, arrival, real=elements, only_row=row, teams=teams)
    c.builder.line(c.patterns.get(multicast, c.cut.rows, c.cut.cols, row), COLUMNS, at, elements)


def to_all_wafers(c: Context, at: At, elements: int, place: int, row: int) -> None:
    """Bring what one PE has to the PEs at its place on all wafers."""
    payload = elements * ELEMENT_BYTES[c.options.element_type(at.buffer.view)]
    pattern = c.patterns.get(from_one, c.cut.cols, c.cut.rows, c.cut.span, 0, place, place)
    c.builder.transfer(
        BetweenWafers,
        at,
        pattern=pattern,
        only_row=row,
        target=at,
        elements=elements,
        source_col=place,
        target_col=place,
        round_count=1,
        latencies=1,
        part=elements,
        bytes=payload,
    )


def _link_s(wafer: WaferSpec, rounds: int, payload_bytes: int, wafers: int) -> float:
    """Seconds that a wafer's link takes to send so many bytes to each other wafer."""
    return rounds * wafer.wafer_link_latency_s + (wafers - 1) * payload_bytes / wafer.wafer_link_bytes_per_s


def _times(number: int | Num, factor: int) -> int | Num:
    return (
        number * factor
        if isinstance(number, int)
        else Num(fixed=number.fixed * factor, per_slot=number.per_slot * factor)
    )
