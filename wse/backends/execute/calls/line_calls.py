"""Calls that execute messages along lines of PEs, with the fastest kernel for each pattern."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64
from wse.backends.execute.calls.pattern_tables import columns_of, message_spans, multicasts_cover, runs_of, senders_of
from wse.backends.execute.calls.streams import Call
from wse.backends.execute.host_memory.arena import Arena
from wse.program.program import Program
from wse.program.steps import COLUMNS, Phase
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import TRANSFERS, operand_index
from wse_kernels.codegen.vectors import WIDTH
from wse_kernels.communication.column_sums import ACCUMULATE, KEEP_LARGER, LOAD, STORE
from wse_kernels.communication.row_sums import MAX_COLS
from wse_kernels.library import compiled_kernel
from wse_mappings.schedule import Arrival, LineSchedule

Step = tuple[int, int, int]
"""Type of a step, and the first and last PE of the line that it affects."""


@lru_cache(maxsize=64)
def accumulation_of(schedule: LineSchedule) -> I32 | None:
    """Convert the messages of an in-place pattern to equivalent steps of an accumulator.

    The accumulator holds the words that travel from PE to PE along a line. A sum therefore stays in
    registers until a PE needs it. Each message is converted as follows:

    1. If the accumulator does not have the words of the sender, they are loaded. An accumulated
       value that is not yet stored is stored first. A sum whose receiver is in the accumulator
       needs no load.
    2. A combining message (sum or maximum) combines the accumulator with the words of the receiver,
       or of the sender. The accumulator then has the value of the receiver.
    3. Any other message stores the accumulator in the PEs that it reaches.
    4. Stores whose values are overwritten before they are read are removed.

    Args:
        schedule: The pattern, whose messages arrive at the address from which they are sent.

    Returns:
        int32 ``[steps, 3]``: the operation, and the first and last PE that it affects. None if the
        lines execute different messages, if messages carry only parts of the words, if pairs are
        compared (ARGMAX), or if a PE adds its words to themselves.
    """
    sources, targets, arrivals = schedule.messages.T
    doubles = (sources == targets) & (arrivals == Arrival.ADD)
    if len(schedule.first) > 2 or schedule.parts > 1 or (doubles | (arrivals == Arrival.ARGMAX)).any():
        return None
    steps, accumulated_pe, is_stored = list[Step](), -1, True
    for source, target, arrival in schedule.messages.tolist():
        if arrival == Arrival.DROP or source == target:
            continue
        adds = arrival == Arrival.ADD and accumulated_pe == target  # 1
        if accumulated_pe != source and not adds:
            if not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            steps.append((LOAD, source, source))
            accumulated_pe, is_stored = source, True
        if arrival in (Arrival.ADD, Arrival.MAX):  # 2
            if not adds and not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            kind, added_pe = (ACCUMULATE if arrival == Arrival.ADD else KEEP_LARGER), source if adds else target
            steps.append((kind, added_pe, added_pe))
            accumulated_pe, is_stored = target, False
        else:  # 3
            first, last = (target, target) if arrival == Arrival.REPLACE else sorted((source, target))
            steps.append((STORE, first, last))
            is_stored = is_stored or arrival == Arrival.MULTICAST
    if not is_stored:
        steps.append((STORE, accumulated_pe, accumulated_pe))
    return np.array(_without_dead_stores(steps, schedule.length), np.int32).reshape(-1, 3)  # 4


def _without_dead_stores(steps: list[Step], length: int) -> list[Step]:
    """Return the operations without the stores whose result is overwritten before it is read.

    Args:
        steps: Operations of an accumulator that sums words along a line: the type of each, and
            the first and last PE that it affects.
        length: Number of PEs on the line.
    """
    needed_steps, is_read = list[Step](), np.ones(length, np.bool_)
    for kind, first, last in reversed(steps):
        stores: npt.NDArray[np.bool_] = is_read[first : last + 1]
        if kind != STORE or stores.any():
            needed_steps.append((kind, first, last))
        stores[:] = kind != STORE
    return needed_steps[::-1]


LANE_S: Final = 1.5e-9
"""Seconds that a 2.6 GHz core needs to move one element from a PE to another PE of its row.

Elements are moved one lane (PE of a block) at a time.
"""
VECTOR_S: Final = 2.5e-10
"""Seconds per element if the elements of neighbouring lanes are moved together.

This is the case along columns, and for PEs on the path of a multicast.
"""
TRANSPOSED_S: Final = 6e-10
"""Seconds per element of a PE for all messages along a row whose words are transposed."""
MIN_TRANSPOSED_WORDS: Final = 8
"""Minimum number of elements per PE for which transposing the words of a row is faster."""
ACCUMULATED_S: Final = 1.2e-10
"""Seconds per element of a PE for all messages along a column whose sums stay in registers."""


class LineCalls:
    """Factory for the function calls that execute transfers along rows or columns of PEs.

    Args:
        program: The compiled Program.
        arenas: Emulated SRAM of each stage in this process, keyed by the index of the stage.
        views: For each of these stages, its SRAM as one array per element type.
    """

    def __init__(
        self, program: Program, arenas: Mapping[int, Arena], views: Mapping[int, list[npt.NDArray[Any]]]
    ) -> None:
        self._program, self._arenas, self._views = program, arenas, views

    def call(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the call that executes messages along lines of PEs with the fastest kernel.

        1. If no words are combined and source and target addresses do not overlap, the messages are
           executed as an exchange: each PE copies the words of one other PE.
        2. Sums along rows that replace their summands are computed on transposed words.
        3. Sums along columns that replace their summands stay in registers.
        4. Otherwise, one message is executed after another.
        """
        arena, schedule, n = self._arenas[transfer.site.stage], messages.schedule, transfer.elements
        along_columns, is_disjoint = messages.axis == COLUMNS, abs(transfer.source - transfer.target) >= n
        assert is_disjoint or messages.in_place, "words arrive among those that are sent"
        if is_disjoint and _is_exchange(schedule, along_rows=not along_columns):  # 1
            return self._exchange(transfer, messages)
        in_place = messages.in_place and not along_columns and _sums_whole(schedule)
        fits_kernel = arena.lanes >= WIDTH and arena.blocks_per_row * arena.lanes <= MAX_COLS
        if in_place and n >= MIN_TRANSPOSED_WORDS and fits_kernel:  # 2
            return self._in_place(transfer, messages)
        view = self._view(transfer)
        operands = self._operands(transfer, messages, n)
        lines = arena.cols if along_columns else messages.rows
        core_s = _core_s(schedule, n, view.itemsize, along_columns=along_columns) * lines / (len(schedule.first) - 1)
        program = accumulation_of(schedule) if along_columns and not is_disjoint else None
        if program is not None:  # 3
            core_s = 0.0 if transfer.leaves_wafer else n * arena.rows * arena.cols * ACCUMULATED_S
            return compiled_kernel("along_columns_in_place").for_time(core_s), (view, program, operands)
        variant = schedule.variants[messages.round % len(schedule.variants)]  # 4
        operands = np.append(operands, not along_columns and not is_disjoint and multicasts_cover(schedule))
        arguments = (view, message_spans(schedule, n, view.itemsize), schedule.first, variant, operands)
        return compiled_kernel("along_columns" if along_columns else "along_rows").for_time(
            0.0 if transfer.leaves_wafer else core_s
        ), arguments

    def counted_call(self, phase: Phase, step: int, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the kernel call for messages along columns whose length is known only at run time.

        The length of a column's messages depends on how many (token, expert) pairs are routed to
        the experts of this column. The kernel is ``along_columns_counted``.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            transfer: The transfer (a step that moves words).
            messages: Communication pattern of the transfer, and the rows that take part.
        """
        arena, schedule, view = self._arenas[transfer.site.stage], messages.schedule, self._view(transfer)
        index = operand_index(TRANSFERS[phase.steps.code[step]])
        assert len(schedule.first) == 2, "one variant"
        per_pair = int(phase.steps.per_pair[step, index["elements"]])
        operands = self._operands(transfer, messages, per_pair)
        pairs_at = phase.steps.operands(step, self._program.cache_slots(0))[index["count"]]
        max_pairs = int(phase.steps.max_pairs[step])
        operands = np.append(operands, (view.itemsize, pairs_at, max_pairs, transfer.elements - max_pairs * per_pair))
        variant = schedule.variants[messages.round % len(schedule.variants)]
        arguments = (
            *(view, arena.view("float32"), arena.links),
            *(schedule.messages, schedule.first, variant, operands),
        )
        core_s = transfer.elements * arena.blocks * arena.lanes * LANE_S
        return compiled_kernel("along_columns_counted").for_time(core_s), arguments

    def _exchange(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the kernel call for a pattern in which each PE copies the words of at most one PE.

        The kernel is ``exchange_along_rows`` or ``exchange_along_columns``.
        """
        arena, schedule, view = self._arenas[transfer.site.stage], messages.schedule, self._view(transfer)
        round_ = messages.round % len(schedule.variants)
        operands = self._operands(transfer, messages, transfer.elements)
        core_s = 0.0 if transfer.leaves_wafer else transfer.elements * messages.rows * arena.cols * VECTOR_S
        if messages.axis == COLUMNS:
            tables: tuple[npt.NDArray[Any], ...] = columns_of(schedule, round_)
        else:
            tables = (*runs_of(schedule), schedule.variants[round_])
        name = "exchange_along_columns" if messages.axis == COLUMNS else "exchange_along_rows"
        return compiled_kernel(name).for_time(core_s), (view, *tables, operands)

    def _in_place(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the kernel call for sums along rows that overwrite the words that are added.

        The kernel is ``along_rows_in_place``.
        """
        arena, schedule = self._arenas[transfer.site.stage], messages.schedule
        operands = self._operands(transfer, messages, transfer.elements)
        core_s = 0.0 if transfer.leaves_wafer else transfer.elements * messages.rows * arena.cols * TRANSPOSED_S
        variant = schedule.variants[messages.round % len(schedule.variants)]
        arguments = self._view(transfer), schedule.messages, schedule.first, variant, operands
        return compiled_kernel("along_rows_in_place").for_time(core_s), arguments

    def _operands(self, transfer: Transfer, messages: LineMessages, elements: int) -> I64:
        """Return the operands that all kernels for messages along rows or columns need.

        Args:
            transfer: The transfer (a step that moves words).
            messages: Communication pattern of the transfer, and the rows that take part.
            elements: Number of elements per PE.
        """
        arena = self._arenas[transfer.site.stage]
        return np.array(
            [
                *(messages.first_row, messages.rows, arena.blocks_per_row, transfer.source, transfer.target, elements),
                *(len(messages.schedule.first) > 2, arena.cols),
            ],
            np.int64,
        )

    def _view(self, transfer: Transfer) -> npt.NDArray[Any]:
        """Return the SRAM of the sending stage as an array of the transfer's element type.

        The array has the axes ``[block, element, lane]``, as in `Arena.view`.
        """
        return self._views[transfer.site.stage][transfer.site.view]


def _is_exchange(schedule: LineSchedule, *, along_rows: bool) -> bool:
    """Return True if executing a pattern as an exchange is possible and faster.

    In an exchange, each PE copies the words of at most one PE. This is not faster in two cases:

    - All columns execute the same messages, which can be executed for many columns at once.
    - Each row has a single message.
    """
    variants = len(schedule.first) - 1
    is_faster = len(schedule.messages) > variants if along_rows else variants > 1
    return is_faster and senders_of(schedule) is not None


@lru_cache(maxsize=64)
def _sums_whole(schedule: LineSchedule) -> bool:
    """Return True if a pattern adds up messages that are not divided into parts.

    The result is False if the pattern computes any maxima.
    """
    arrivals = set(schedule.messages[:, 2].tolist())
    return schedule.parts == 1 and Arrival.ADD in arrivals and not arrivals & {Arrival.MAX, Arrival.ARGMAX}


@lru_cache(maxsize=64)
def _core_s(schedule: LineSchedule, elements: int, element_bytes: int, *, along_columns: bool) -> float:
    """Estimate how many seconds one CPU core needs to execute each variant of a pattern once.

    A variant is a list of messages that some of the pattern's lines execute.

    Args:
        schedule: The communication pattern.
        elements: Number of elements per PE.
        element_bytes: Bytes per element.
        along_columns: Whether the lines are columns of PEs.

    Returns:
        Total of all variants.
    """
    spans = message_spans(schedule, elements, element_bytes)
    source, target, arrival, _, message_elements = spans.astype(np.int64).T
    multicast = arrival == Arrival.MULTICAST
    pes = np.where(multicast, abs(target - source) + 1, 1)
    return float((message_elements * pes * np.where(multicast | along_columns, VECTOR_S, LANE_S)).sum())
