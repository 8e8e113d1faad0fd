"""All-reduces over the rows and columns of a region, and over the columns of its head groups.

A head group is a set of neighbouring columns that share the features of the same heads. Along the
rows of a region that spans several wafers, values are first combined on each wafer, then between
wafers.
"""

from __future__ import annotations

from typing import Any

from wse.compiler.lowering.phase.block_steps import Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.errors import BadInput
from wse.number_formats import WORD_BYTES
from wse.program.line_patterns import cached_pattern
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.patterns import BetweenWafers
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.on_segments import all_reduce_on_segments
from wse_mappings.patterns.wafer_collectives import wafer_all_reduce, wafer_multicast
from wse_mappings.rounding import ceil_div
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
    column_range: tuple[int, int] | None = None,
    to_all: bool = False,
) -> None:
    """Add an all-reduce along the rows or along the columns of the current region.

    Args:
        c: Context of the phase being lowered.
        axis: ROWS to combine along rows, COLUMNS to combine along columns.
        buffer: Values to combine, in place.
        elements: Number of elements per PE.
        arrival: How values are combined: sum, maximum, or arg max.
        count: Buffer from which PEs read the number of (token, expert) pairs, if ``elements``
            depends on it.
        over_rows: Total number of elements in all rows, without padding, for a sum along rows that
            have different elements; 0 if all rows have the same elements. It determines the number
            of bytes sent between wafers.
        column_range: First column and number of columns that have values to combine, for a sum
            along rows; None for all.
        to_all: Whether all columns receive the result, not only the columns in ``column_range``.
    """
    if axis == ROWS and c.cut.span > 1:
        at = SymAddress(buffer=buffer) if isinstance(buffer, SymBuffer) else buffer
        assert isinstance(elements, int)
        if over_rows:
            all_reduce_of_wafers(c, at, elements, arrival, unpadded_elements=over_rows, only_row=None)
        else:
            _all_reduce_of_one_row(c, at, elements, arrival)
        return
    segment_options: dict[str, Any] = {}
    if column_range is not None and column_range[1] < c.lines(axis)[0]:
        segment_options = {"segments": (column_range,), "to_all": to_all}
    pattern = _all_reduce_pattern(c, axis, arrival, buffer, elements, **segment_options)
    c.builder.line(pattern, axis, buffer, elements, count=count)


def _all_reduce_pattern(
    c: Context,
    axis: int,
    arrival: Arrival,
    buffer: SymAddress | SymBuffer,
    elements: int | SymNumber,
    **segment_options: Any,
) -> int:
    """Return the index of the pattern of an all-reduce.

    It is a K-tree, unless the user requested another pattern with ``--all-reduce``.

    Args:
        c: Context of the phase being lowered.
        axis: ROWS to combine along rows, COLUMNS to combine along columns.
        arrival: How values are combined.
        buffer: Values to combine.
        elements: Number of elements per PE. If it grows with the KV cache, a requested pattern is
            chosen for the constant part.
        segment_options: Options that divide each line into segments, each with its own all-reduce.

    Raises:
        BadInput: The requested pattern cannot be created for these sizes.
    """
    length, lines = c.lines(axis)
    if not c.options.all_reduce:
        segment_length = max((count for _, count in segment_options.get("segments", ())), default=length)
        groups = c.groups(segment_length)
        return c.patterns.get(k_tree, length, lines, arrival, broadcast=True, groups=groups, **segment_options)
    view = buffer.view if isinstance(buffer, SymBuffer) else buffer.buffer.view
    fixed = elements if isinstance(elements, int) else elements.fixed
    words = max(1, ceil_div(fixed * c.options.element_bytes(view), WORD_BYTES))
    make = cached_pattern(c.options.all_reduce).for_words(words, 2 * c.wafer.ramp_cycles + 1)
    try:
        return c.patterns.get(all_reduce_on_segments, make, length, lines, arrival, **segment_options)
    except ValueError as error:
        raise BadInput(f"--all-reduce {c.options.all_reduce}: {error}; `wse pattern` shows what it does") from error


def reduce_in_groups(
    c: Context, buffer: SymBuffer, elements: int | SymNumber, segments: tuple[tuple[int, int], ...] = ()
) -> None:
    """Add steps that sum values over each head group and send the sum to all columns of the group.

    A head group is a set of neighbouring columns that divide the features of the same heads.

    Args:
        c: Context of the phase being lowered.
        buffer: Values to add up, in place.
        elements: Number of elements per PE.
        segments: First column and number of columns of each group; by default the groups of
            attention.
    """
    segments = segments or c.cut.heads.segments
    if len(segments) < c.cut.span:  # wafers share heads
        _reduce_over_wafers(c, buffer, elements, len(segments))
    elif any(count > 1 for _, count in segments):
        pattern = _all_reduce_pattern(c, ROWS, Arrival.ADD, buffer, elements, segments=segments)
        c.builder.line(pattern, ROWS, buffer, elements)


def _reduce_over_wafers(c: Context, buffer: SymBuffer, elements: int | SymNumber, teams: int) -> None:
    """Add steps that sum values over head groups, each of which covers one or more whole wafers.

    A head group is a set of columns that divide the features of the same attention heads. All
    columns of a group receive the sum.

    Args:
        c: Context of the phase being lowered.
        buffer: Values to add up, in place.
        elements: Number of elements per PE.
        teams: Number of head groups.
    """
    at = SymAddress(buffer=buffer)
    if isinstance(elements, SymNumber):
        unpadded_elements = SymNumber(per_slot=elements.per_slot * c.cut.rows)
        all_reduce_of_wafers(
            c, at, elements, Arrival.ADD, unpadded_elements=unpadded_elements, only_row=None, teams=teams
        )
    else:
        _all_reduce_of_one_row(c, at, elements, Arrival.ADD, teams)


def all_reduce_of_wafers(
    c: Context,
    at: SymAddress,
    elements: int | SymNumber,
    arrival: Arrival,
    *,
    unpadded_elements: int | SymNumber,
    only_row: int | None,
    teams: int = 1,
) -> None:
    """Add an all-reduce along the rows of a region that spans several wafers.

    1. On each wafer, combine the values of each row on one PE.
    2. Combine the results of the wafers over the links between wafers. Every wafer sends its whole
       result to all other wafers in one round. For sums, there is an alternative with two rounds:
       each wafer adds up one part of the result, and then sends this part to all other wafers. The
       faster alternative is used.
    3. Multicast the result along the rows of each wafer.

    Args:
        c: Context of the phase being lowered.
        at: Values to combine, in place.
        elements: Number of elements per PE.
        arrival: How values are combined.
        unpadded_elements: Total number of elements that a wafer sends in all participating rows,
            without padding.
        only_row: The only row that takes part; None for all rows.
        teams: Number of equally sized groups of wafers, each of which combines its own values.
    """
    cols, rows, wafers, width, view = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer, at.buffer.view
    segments, groups = tuple((wafer * width, width) for wafer in range(wafers)), c.groups(width)
    place = root_of(width, groups)
    # 1. Combine on each wafer.
    reduce_ = c.patterns.get(k_tree, cols, rows, arrival, broadcast=False, segments=segments, groups=groups)
    c.builder.line(reduce_, ROWS, at, elements, only_row=only_row)
    # 2. Combine between wafers.
    combined_buffer = c.temp(f"of_all_wafers_{view}", at.buffer.elements, view, "buffers")
    element_bytes = c.options.element_bytes(view)
    rounds, part, payload = 1, elements, _times(unpadded_elements, element_bytes)
    if arrival == Arrival.ADD and teams == 1 and isinstance(unpadded_elements, int) and isinstance(elements, int):
        one_round = (1, elements, unpadded_elements * element_bytes)
        two_rounds = (2, ceil_div(elements, wafers), 2 * ceil_div(unpadded_elements, wafers) * element_bytes)
        rounds, part, payload = min(
            one_round, two_rounds, key=lambda exchange: _exchange_cycles(c, element_bytes, *exchange)
        )
    pattern = c.patterns.get(wafer_all_reduce, cols, rows, wafers, place, arrival, teams)
    messages: dict[str, Any] = {"round_count": rounds, "latencies": rounds, "part": part}
    cross_wafers(
        c, at, pattern, elements, (place, place), payload, only_row=only_row, target=combined_buffer, **messages
    )
    # 3. Send the result along the rows.
    result = c.patterns.get(multicast, cols, rows, place, wafers)
    c.builder.line(result, ROWS, combined_buffer, elements, target=at, only_row=only_row)


def _all_reduce_of_one_row(c: Context, at: SymAddress, elements: int, arrival: Arrival, teams: int = 1) -> None:
    """Add steps for an all-reduce along rows if all rows have the same values.

    To send fewer words between wafers, only one row combines the values of all wafers. It then
    multicasts the result along the columns.

    Args:
        c: Context of the phase being lowered.
        at: Values to combine, in place.
        elements: Number of elements per PE.
        arrival: How values are combined.
        teams: Number of equally sized groups of wafers, each of which combines its own values.
    """
    row = root_of(c.cut.rows)
    all_reduce_of_wafers(c, at, elements, arrival, unpadded_elements=elements, only_row=row, teams=teams)
    c.builder.line(c.patterns.get(multicast, c.cut.rows, c.cut.cols, row), COLUMNS, at, elements)


def to_all_wafers(c: Context, at: SymAddress, elements: int) -> None:
    """Send values of the north-west PE on the first wafer to the north-west PE on every wafer.

    Args:
        c: Context of the phase being lowered.
        at: Values to send.
        elements: Number of elements.
    """
    payload = elements * c.options.element_bytes(at.buffer.view)
    pattern = c.patterns.get(wafer_multicast, c.cut.cols, c.cut.rows, c.cut.span, 0, 0, 0)
    cross_wafers(c, at, pattern, elements, (0, 0), payload, only_row=0)


def cross_wafers(
    c: Context,
    source: SymAddress | SymBuffer,
    pattern: int,
    elements: int | SymNumber,
    columns: tuple[int, int],
    payload: int | SymNumber,
    *,
    only_row: int | None = None,
    by_choice: int = 0,
    **operands: Operand,
) -> None:
    """Add a transfer in which the wafers of a region send elements to each other.

    Args:
        c: Context of the phase being lowered.
        source: Elements to send.
        pattern: Index of the pattern, which lists the wafers that send to each other.
        elements: Number of elements.
        columns: Sending column and receiving column of each wafer.
        payload: Number of bytes that one wafer sends to another, without padding.
        only_row: Row that sends and receives; None for all rows.
        by_choice: FROM_CHOSEN or TO_CHOSEN of `wse.program.transfers.patterns` if only wafers with
            selected experts participate; 0 if all do.
        operands: Operands of the transfer class `BetweenWafers` that differ from their defaults. By
            default, elements arrive at ``source`` in one message, which costs one link latency.
    """
    defaults: dict[str, Any] = {"target": source, "round_count": 1, "latencies": 1, "part": elements}
    numbers = {"elements": elements, "source_col": columns[0], "target_col": columns[1], "bytes": payload}
    c.builder.transfer(
        BetweenWafers,
        source,
        pattern=pattern,
        only_row=only_row,
        by_choice=by_choice,
        **(defaults | numbers | operands),
    )


def _exchange_cycles(c: Context, element_bytes: int, rounds: int, elements: int, payload_bytes: int) -> float:
    """Estimate the cycles of an exchange in which every wafer sends values to all others and adds theirs.

    The terms are those of `wse.backends.fabric.transfer_cost`. In each round, a message crosses two
    ramps, a link between wafers, and the columns of the region on one wafer: on the way to the east
    edge of the region, and from its west edge on the other wafer to the same column.

    Args:
        c: Context of the phase being lowered.
        element_bytes: Size of an element.
        rounds: Number of rounds. In each, a wafer sends one message to every other wafer.
        elements: Number of elements per message.
        payload_bytes: Number of bytes sent to each other wafer in all rounds.
    """
    wafer, peers = c.wafer, c.cut.span - 1
    hops = rounds * ((c.cut.cols_of_wafer - 1) * wafer.hop_cycles + 2 * wafer.ramp_cycles + 1)
    stream = peers * rounds * ceil_div(elements * element_bytes, WORD_BYTES) / wafer.stream_words_per_cycle
    add = (peers + 1) * c.costs.vector(elements, c.costs.acc)
    link_s = rounds * wafer.wafer_link_latency_s + peers * payload_bytes / wafer.wafer_link_bytes_per_s
    return hops + stream + add + link_s * wafer.clock_hz


def _times(number: int | SymNumber, factor: int) -> int | SymNumber:
    """Multiply a number by a factor; the number may depend on the KV-cache slots in use."""
    if isinstance(number, int):
        return number * factor
    return SymNumber(fixed=number.fixed * factor, per_slot=number.per_slot * factor)
