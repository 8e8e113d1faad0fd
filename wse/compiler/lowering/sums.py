"""Sums over the lines of a region and over the columns of its head groups: every reduce that a lowering asks for.

Along rows of a region that spans wafers, words are combined inside each wafer, then between wafers.
"""

from __future__ import annotations

from typing import Any

from wse.compiler.lowering.context import Context
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.number_formats import ELEMENT_BYTES, WORD_BYTES
from wse.program.line_patterns import kept_pattern
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.patterns import BetweenWafers
from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.between_wafers import wafer_all_reduce, wafer_multicast
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.on_stretches import all_reduce_on_stretches
from wse_mappings.schedule import Arrival


def all_reduce(
    c: Context,
    axis: int,
    buffer: SymAddress | SymBuffer,
    elements: int | SymNumber,
    arrival: Arrival = Arrival.ADD,
    count: SymBuffer | None = None,
    *,
    over_rows: int = 0,
    within: tuple[int, int] | None = None,
    to_all: bool = False,
) -> None:
    """Add a K-tree all-reduce over whole lines. ``count`` is that of `PhaseBuilder.line`.

    ``over_rows``: elements without padding that all rows together have, along rows; 0 where all have the same.
    ``within``: (first, columns) of those that have anything to add, along rows. They alone get the sums, unless these
    are for all columns (``to_all``).
    """
    if axis == ROWS and c.cut.span > 1:
        at = SymAddress(buffer=buffer) if isinstance(buffer, SymBuffer) else buffer
        assert isinstance(elements, int)
        if over_rows:
            all_reduce_of_wafers(c, at, elements, arrival, real=over_rows, only_row=None)
        else:
            _all_reduce_of_one_row(c, at, elements, arrival)
        return
    length, lines = c.lines(axis)
    stretch: dict[str, Any] = {}
    if within is not None and within[1] < length:
        length, stretch = within[1], {"segments": (within,), "to_all": to_all}
    if c.options.all_reduce:
        pattern = _named_pattern(c, c.lines(axis)[0], lines, arrival, buffer, elements, **stretch)
    else:
        pattern = c.patterns.get(
            k_tree, c.lines(axis)[0], lines, arrival, broadcast=True, groups=c.groups(length), **stretch
        )
    c.builder.line(pattern, axis, buffer, elements, count=count)


def _named_pattern(
    c: Context,
    length: int,
    lines: int,
    arrival: Arrival,
    buffer: SymAddress | SymBuffer,
    elements: int | SymNumber,
    **stretch: Any,
) -> int:
    """Return the all-reduce that the request names, created for the words that do not depend on cache slots."""
    view = buffer.view if isinstance(buffer, SymBuffer) else buffer.buffer.view
    fixed = elements if isinstance(elements, int) else elements.fixed
    words = max(1, ceil_div(fixed * ELEMENT_BYTES[c.options.element_type(view)], WORD_BYTES))
    make = kept_pattern(c.options.all_reduce).of_words(words, 2 * c.wafer.ramp_cycles + 1)
    try:
        return c.patterns.get(all_reduce_on_stretches, make, length, lines, arrival, **stretch)
    except ValueError as error:
        message = f"--all-reduce {c.options.all_reduce}: {error}; `wse pattern` shows what it does"
        raise BadInput(message) from error


def reduce_in_groups(c: Context, buffer: SymBuffer, elements: int | SymNumber) -> None:
    """Add an all-reduce of sums within the columns of each head group."""
    segments = c.cut.heads.segments
    if len(segments) < c.cut.span:  # wafers share heads
        _reduce_in_teams(c, buffer, elements)
    elif any(count > 1 for _, count in segments):
        groups = c.groups(max(count for _, count in segments))
        if c.options.all_reduce:
            pattern = _named_pattern(c, c.cut.cols, c.cut.rows, Arrival.ADD, buffer, elements, segments=segments)
        else:
            pattern = c.patterns.get(
                k_tree, c.cut.cols, c.cut.rows, Arrival.ADD, broadcast=True, segments=segments, groups=groups
            )
        c.builder.line(pattern, ROWS, buffer, elements)


def _reduce_in_teams(c: Context, buffer: SymBuffer, elements: int | SymNumber) -> None:
    """Add an all-reduce of sums where a head group has whole wafers."""
    at, teams = SymAddress(buffer=buffer), len(c.cut.heads.segments)
    if isinstance(elements, SymNumber):
        real = SymNumber(per_slot=elements.per_slot * c.cut.rows)
        all_reduce_of_wafers(c, at, elements, Arrival.ADD, real=real, only_row=None, teams=teams)
    else:
        _all_reduce_of_one_row(c, at, elements, Arrival.ADD, teams)


def all_reduce_of_wafers(
    c: Context,
    at: SymAddress,
    elements: int | SymNumber,
    arrival: Arrival,
    *,
    real: int | SymNumber,
    only_row: int | None,
    teams: int = 1,
) -> None:
    """Combine the values at ``at`` of the PEs of a row, or of its part on a team of wafers.

    ``real``: elements without padding that a wafer sends, of all rows that take part.
    """
    cols, rows, wafers, width, view = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer, at.buffer.view
    segments, groups = tuple((wafer * width, width) for wafer in range(wafers)), c.groups(width)
    place = root_of(width, groups)
    reduce_ = c.patterns.get(k_tree, cols, rows, arrival, broadcast=False, segments=segments, groups=groups)
    c.builder.line(reduce_, ROWS, at, elements, only_row=only_row)
    combined = c.temp(f"of_all_wafers_{view}", at.buffer.elements, view, "buffers")
    element_bytes = ELEMENT_BYTES[c.options.element_type(view)]
    part, rounds, payload = elements, 1, _times(real, element_bytes)
    if arrival == Arrival.ADD and teams == 1 and isinstance(real, int) and isinstance(elements, int):
        in_parts = 2 * ceil_div(real, wafers) * element_bytes
        if _link_s(c.wafer, 2, in_parts, wafers) < _link_s(c.wafer, 1, real * element_bytes, wafers):
            part, rounds, payload = ceil_div(elements, wafers), 2, in_parts
    pattern = c.patterns.get(wafer_all_reduce, cols, rows, wafers, place, arrival, teams)
    cross_wafers(
        c,
        at,
        pattern,
        elements,
        source_col=place,
        target_col=place,
        payload=payload,
        target=combined,
        only_row=only_row,
        rounds=rounds,
        part=part,
    )
    c.builder.line(
        c.patterns.get(multicast, cols, rows, place, wafers), ROWS, combined, elements, target=at, only_row=only_row
    )


def _all_reduce_of_one_row(c: Context, at: SymAddress, elements: int, arrival: Arrival, teams: int = 1) -> None:
    """Add an all-reduce on one row, whose PEs then send down their columns, where all rows have the same words."""
    row = root_of(c.cut.rows)
    all_reduce_of_wafers(c, at, elements, arrival, real=elements, only_row=row, teams=teams)
    c.builder.line(c.patterns.get(multicast, c.cut.rows, c.cut.cols, row), COLUMNS, at, elements)


def to_all_wafers(c: Context, at: SymAddress, elements: int, place: int, row: int) -> None:
    """Send the values of one PE to the PEs at the same position on all wafers."""
    payload = elements * ELEMENT_BYTES[c.options.element_type(at.buffer.view)]
    pattern = c.patterns.get(wafer_multicast, c.cut.cols, c.cut.rows, c.cut.span, 0, place, place)
    cross_wafers(c, at, pattern, elements, source_col=place, target_col=place, payload=payload, only_row=row)


def cross_wafers(
    c: Context,
    source: SymAddress | SymBuffer,
    pattern: int,
    elements: int | SymNumber,
    *,
    source_col: int,
    target_col: int,
    payload: int | SymNumber,
    target: SymBuffer | None = None,
    only_row: int | None = None,
    rounds: int = 1,
    latencies: int | None = None,
    part: int | SymNumber | None = None,
    by_choice: int = 0,
) -> None:
    """Run a pattern between wafers on the elements at ``source``. Arrivals go to ``target``, by default in place.

    Columns are those of a wafer. ``payload`` counts bytes on the wafers' links, ``latencies`` theirs that are waited
    for: one a round by default. Each round takes ``part`` of the elements, by default all.
    """
    c.builder.transfer(
        BetweenWafers,
        source,
        pattern=pattern,
        only_row=only_row,
        by_choice=by_choice,
        target=source if target is None else target,
        elements=elements,
        source_col=source_col,
        target_col=target_col,
        round_count=rounds,
        latencies=rounds if latencies is None else latencies,
        part=elements if part is None else part,
        bytes=payload,
    )


def _link_s(wafer: WaferSpec, rounds: int, payload_bytes: int, wafers: int) -> float:
    """Return the seconds that the link of a wafer needs to send bytes to each other wafer."""
    return rounds * wafer.wafer_link_latency_s + (wafers - 1) * payload_bytes / wafer.wafer_link_bytes_per_s


def _times(number: int | SymNumber, factor: int) -> int | SymNumber:
    return (
        number * factor
        if isinstance(number, int)
        else SymNumber(fixed=number.fixed * factor, per_slot=number.per_slot * factor)
    )
