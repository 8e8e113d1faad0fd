"""Calls that execute the messages of a transfer, with a different method for each message type.

Words on links of the mesh are counted in three places:

- by kernels, if the number of words depends on the contents of PEs
- by `wse.backends.execute.calls.line_loads`, if it does not
- by `wse.backends.execute.calls.streams`, for transfers that leave their wafer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.execute.calls.accumulations import accumulation_of
from wse.backends.execute.calls.line_loads import LineLoads
from wse.backends.execute.calls.pattern_tables import columns_of, message_spans, multicasts_cover, runs_of, senders_of
from wse.backends.execute.calls.streams import Call, Streams
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.observation.outputs import Routing
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import COLUMNS, Slots
from wse.program.transfers.messages import HostWords, LineMessages, RowShift, Translation
from wse.program.transfers.stage_streams import Crossing
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import TRANSFERS, operand_index, transfer_of
from wse_kernels.communication.row_sums import MAX_COLS, WIDTH
from wse_kernels.library import compiled_kernel
from wse_mappings.schedule import Arrival, LineSchedule

LANE_S: Final = 1.5e-9
"""Seconds of a core, at 2.6 GHz, to send one element from a PE to another PE of its row.

This moves a single lane at a time.
"""
VECTOR_S: Final = 2.5e-10
"""Seconds of a core for an element that is moved together with those of neighbouring lanes.

This is so along columns, and for PEs that a multicast passes.
"""
TRANSPOSED_S: Final = 6e-10
"""Seconds of a core for an element of a row whose words are transposed, with all its messages."""
LEAST_WORDS: Final = 8
"""Number of elements from which on transposing a row is faster."""
ACCUMULATED_S: Final = 1.2e-10
"""Seconds of a core for an element of a column whose sums stay in registers, with all messages."""


class TransferCalls:
    """Factory of the function calls that execute the transfers of one Program.

    Args:
        program: The Program.
        arenas: SRAM of the stages in this process; the key is the stage.
        views: For each of these stages, its SRAM as one array per element type.
        control: Cache counters by user and stage, which kernels read.
        streams: Data exchanged with the host, and counters of words that leave regions.
        routing: Record of the experts that tokens choose.

    Attributes:
        crossings: Words in transit to and from stages in other processes; the key is the step.
    """

    def __init__(
        self,
        program: Program,
        arenas: Mapping[int, Arena],
        views: Mapping[int, list[npt.NDArray[Any]]],
        control: list[list[npt.NDArray[np.int32]]],
        streams: Streams,
        routing: Routing,
    ) -> None:
        self._program, self._arenas, self._views, self._control = program, arenas, views, control
        self._streams, self._routing = streams, routing
        self.crossings: dict[int, npt.NDArray[Any]] = {}

    def calls(self, phase: Phase, step: int, slots: Slots, iteration: int, user: int) -> list[Call]:
        """Return the function calls that execute one transfer step in one iteration of its loop.

        Args:
            phase: The phase.
            step: Index of the step.
            slots: Cache slots in use in each stage.
            iteration: Iteration of the loop.
            user: User whose counters the step depends on.
        """
        stage = int(phase.steps.stage[step])
        if stage not in self._arenas and not issubclass(TRANSFERS[phase.steps.code[step]], Crossing):
            return []
        transfer = transfer_of(self._program, phase, step, slots, phase.round_of(step, iteration))
        match transfer.messages:
            case HostWords():
                element_type, places = self._program.element_types[transfer.site.view], self._program.host_places(phase)
                return [self._streams.host_call(self._arenas[transfer.site.stage], element_type, transfer, places)]
            case RowShift():
                return [self._row_shift(transfer, user)]
            case Translation() as messages if stage not in self._arenas or messages.target_stage not in self._arenas:
                return self._crossing(step, transfer, messages)
            case Translation() as messages:
                return self._with_count(transfer, self._translation(transfer, messages))
            case LineMessages() if transfer.leaves_wafer and phase.steps.depends_on_experts[step]:
                return [(self._move_between_chosen, (phase, step, slots, iteration))]
            case LineMessages() as messages if phase.steps.per_pair[step].any():
                return [self._counted_line(phase, step, transfer, messages)]
            case LineMessages() as messages:
                return self._with_count(transfer, self._line(transfer, messages))

    def _with_count(self, transfer: Transfer, call: Call) -> list[Call]:
        """Return the call and, if the transfer leaves its wafer, a call that counts its words."""
        return [call, (self._streams.count, (transfer,))] if transfer.leaves_wafer else [call]

    def _row_shift(self, transfer: Transfer, user: int) -> Call:
        """Return the call of kernel ``cache_shift``, which moves cache entries to the row above."""
        site, n = transfer.site, transfer.elements
        arena = self._arenas[site.stage]
        operands = [arena.rows, arena.blocks_per_row, transfer.source, n, transfer.words, arena.cols]
        arguments = (self._view(transfer), arena.links, self._control[user][site.stage], np.array(operands, np.int64))
        return compiled_kernel("cache_shift").for_time(n * arena.rows * arena.cols * VECTOR_S), arguments

    def _crossing(self, step: int, transfer: Transfer, messages: Translation) -> list[Call]:
        """Return the calls of a transfer between wafers in different processes.

        They send or receive the words, if one end is in this process, and count them. The list is
        empty if neither end is.
        """
        count: Call = (self._streams.count, (transfer,))
        if transfer.site.stage in self._arenas:
            return [(self._send, (step, transfer, messages)), count]
        if messages.target_stage in self._arenas:
            return [(self._receive, (step, transfer, messages)), count]
        return []

    def _send(self, step: int, transfer: Transfer, messages: Translation) -> None:
        """Copy the words that a transfer sends to another process.

        They are stored in ``crossings`` as ``[rows x blocks, elements, lanes]`` of the sending
        columns. A block is a group of neighbouring PEs of a row, and a lane is one PE of the block.
        """
        arena, first, last = self._arenas[transfer.site.stage], messages.source_col, messages.cols - 1
        block, lane = divmod(first, arena.lanes)
        blocks = slice(block, (first + last) // arena.lanes + 1)
        lanes = slice(lane, lane + last + 1) if blocks.stop == block + 1 else slice(None)
        by_row = self._view(transfer).reshape(arena.rows, arena.blocks_per_row, -1, arena.lanes)
        tiles = by_row[:, blocks, transfer.source : transfer.source + transfer.elements, lanes]
        self.crossings[step] = np.array(tiles, order="C").reshape(-1, *tiles.shape[2:])

    def _receive(self, step: int, transfer: Transfer, messages: Translation) -> None:
        """Store words that `_send` copied in another process in the SRAM of the receiving PEs."""
        tiles = self.crossings.pop(step)
        rows, lanes = transfer.site.placed_stage.rect.rows, tiles.shape[2]
        first = messages.source_col % lanes if len(tiles) > rows else 0
        local_messages = replace(messages, source_col=first)
        function, arguments = self._translation(transfer, local_messages, (tiles, len(tiles) // rows))
        function(*arguments)

    def _translation(
        self, transfer: Transfer, messages: Translation, remote_tiles: tuple[npt.NDArray[Any], int] | None = None
    ) -> Call:
        """Return the call of kernel ``hand_over``, which copies words from one region to another.

        The kernel counts words on links only if they stay on one wafer.

        Args:
            transfer: The transfer.
            messages: Its messages.
            remote_tiles: Words from a stage in another process, and the number of blocks of
                neighbouring PEs in each of its rows; None if the stage is in this process.
        """
        source, target = transfer.site.placed_stage, self._program.stages[messages.target_stage]
        on_mesh = not (transfer.leaves_wafer or transfer.in_memory)
        target_blocks, vectors = self._arenas[messages.target_stage].blocks_per_row, messages.vectors
        if remote_tiles is None:
            source_view, blocks = self._view(transfer), self._arenas[transfer.site.stage].blocks_per_row
        else:
            source_view, blocks = remote_tiles
        address = transfer.source if remote_tiles is None else 0
        operands = np.array(
            [
                *(vectors, blocks, target_blocks, address, transfer.target, transfer.elements // vectors),
                *(messages.source_col, messages.target_col, messages.cols, messages.target_elements // vectors),
                *(source.rect.row, source.rect.col, target.rect.row, target.rect.col, messages.stride),
            ],
            np.int64,
        )
        words = messages.words if on_mesh else np.zeros_like(messages.words)
        target_view = self._views[messages.target_stage][transfer.site.view]
        arguments = (
            source_view,
            target_view,
            self._streams.links[target.wafer],
            messages.pieces,
            words,
            operands,
        )
        return compiled_kernel("hand_over").serial, arguments

    def loads(self, phase: Phase, step: int, slots: Slots, iteration: int) -> LineLoads | None:
        """Return the words that a transfer puts on links, in one iteration of its loop.

        The result is None if a kernel or `Streams` counts these words instead.

        Args:
            phase: The phase.
            step: Index of the step.
            slots: Cache slots in use in each stage.
            iteration: Iteration of the loop.
        """
        transfer = transfer_of(self._program, phase, step, slots, phase.round_of(step, iteration))
        messages = transfer.messages
        if not isinstance(messages, LineMessages) or transfer.leaves_wafer or phase.steps.per_pair[step].any():
            return None
        arena, along_columns = self._arenas[transfer.site.stage], messages.axis == COLUMNS
        return LineLoads(
            schedule=messages.schedule,
            elements=transfer.elements,
            element_bytes=self._view(transfer).itemsize,
            round=messages.round % len(messages.schedule.variants),
            first_line=0 if along_columns else messages.first_row,
            lines=arena.cols if along_columns else messages.rows,
            along_columns=along_columns,
        )

    def _line(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the call that executes messages along lines, with the fastest suitable kernel.

        1. If no words are combined and source and target addresses do not overlap, the messages are
           executed as an exchange: each PE copies the words of one other PE.
        2. Sums in place along rows are computed on transposed words.
        3. Sums in place along columns stay in registers.
        4. Otherwise, one message is executed after another.
        """
        arena, schedule, n = self._arenas[transfer.site.stage], messages.schedule, transfer.elements
        along_columns, is_disjoint = messages.axis == COLUMNS, abs(transfer.source - transfer.target) >= n
        assert is_disjoint or messages.in_place, "words arrive among those that are sent"
        if is_disjoint and _is_exchange(schedule, along_rows=not along_columns):  # 1
            return self._exchange(transfer, messages)
        in_place = messages.in_place and not along_columns and _sums_whole(schedule)
        fits_kernel = arena.lanes >= WIDTH and arena.blocks_per_row * arena.lanes <= MAX_COLS
        if in_place and n >= LEAST_WORDS and fits_kernel:  # 2
            return self._in_place(transfer, messages)
        view = self._view(transfer)
        operands = self._line_operands(transfer, messages, n)
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

    def _exchange(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the call of kernel ``exchange_along_rows`` or ``exchange_along_columns``.

        In an exchange, each PE copies the words of at most one other PE.
        """
        arena, schedule, view = self._arenas[transfer.site.stage], messages.schedule, self._view(transfer)
        round_ = messages.round % len(schedule.variants)
        operands = self._line_operands(transfer, messages, transfer.elements)
        core_s = 0.0 if transfer.leaves_wafer else transfer.elements * messages.rows * arena.cols * VECTOR_S
        if messages.axis == COLUMNS:
            tables: tuple[npt.NDArray[Any], ...] = columns_of(schedule, round_)
        else:
            tables = (*runs_of(schedule), schedule.variants[round_])
        name = "exchange_along_columns" if messages.axis == COLUMNS else "exchange_along_rows"
        return compiled_kernel(name).for_time(core_s), (view, *tables, operands)

    def _in_place(self, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the call of kernel ``along_rows_in_place``, which adds up words along rows."""
        arena, schedule = self._arenas[transfer.site.stage], messages.schedule
        operands = self._line_operands(transfer, messages, transfer.elements)
        core_s = 0.0 if transfer.leaves_wafer else transfer.elements * messages.rows * arena.cols * TRANSPOSED_S
        variant = schedule.variants[messages.round % len(schedule.variants)]
        arguments = self._view(transfer), schedule.messages, schedule.first, variant, operands
        return compiled_kernel("along_rows_in_place").for_time(core_s), arguments

    def _counted_line(self, phase: Phase, step: int, transfer: Transfer, messages: LineMessages) -> Call:
        """Return the call of kernel ``along_columns_counted``.

        The number of elements of a message depends on how many (token, expert) pairs its column
        has.
        """
        arena, schedule, view = self._arenas[transfer.site.stage], messages.schedule, self._view(transfer)
        index = operand_index(TRANSFERS[phase.steps.code[step]])
        assert len(schedule.first) == 2, "one variant"
        per_pair = int(phase.steps.per_pair[step, index["elements"]])
        operands = self._line_operands(transfer, messages, per_pair)
        pairs_at = phase.steps.operands(step, self._program.cache_slots(0))[index["count"]]
        most_pairs = int(phase.steps.most_pairs[step])
        operands = np.append(operands, (view.itemsize, pairs_at, most_pairs, transfer.elements - most_pairs * per_pair))
        variant = schedule.variants[messages.round % len(schedule.variants)]
        arguments = (
            *(view, arena.view("float32"), arena.links),
            *(schedule.messages, schedule.first, variant, operands),
        )
        core_s = transfer.elements * arena.blocks * arena.lanes * LANE_S
        return compiled_kernel("along_columns_counted").for_time(core_s), arguments

    def _line_operands(self, transfer: Transfer, messages: LineMessages, elements: int) -> I64:
        """Return the operands that all kernels for messages along lines have in common."""
        arena = self._arenas[transfer.site.stage]
        return np.array(
            [
                *(messages.first_row, messages.rows, arena.blocks_per_row, transfer.source, transfer.target, elements),
                *(len(messages.schedule.first) > 2, arena.cols),
            ],
            np.int64,
        )

    def _move_between_chosen(self, phase: Phase, step: int, slots: Slots, iteration: int) -> None:
        """Execute only the messages of wafers whose experts the router has just chosen."""
        stage = int(phase.steps.stage[step])
        mixture = self._program.mixtures[stage]
        assert mixture is not None
        pairs = self._routing.pairs[self._program.op_layers[phase.steps.op[step]]]
        chosen_wafers = self._program.chosen_wafers(stage, mixture.pairs_by_column(pairs))
        transfer = transfer_of(self._program, phase, step, slots, iteration, chosen_wafers)
        assert isinstance(transfer.messages, LineMessages)
        function, arguments = self._line(transfer, transfer.messages)
        function(*arguments)
        self._streams.count(transfer)

    def _view(self, transfer: Transfer) -> npt.NDArray[Any]:
        """Return the SRAM of the sending stage as an array of the transfer's element type."""
        return self._views[transfer.site.stage][transfer.site.view]


def _is_exchange(schedule: LineSchedule, *, along_rows: bool) -> bool:
    """Return True if executing a pattern as an exchange is possible and faster.

    In an exchange, each PE copies the words of at most one PE. This is not faster if all columns
    execute the same messages, which are then moved for all lanes at once, or if a row has a single
    message.
    """
    variants = len(schedule.first) - 1
    is_faster = len(schedule.messages) > variants if along_rows else variants > 1
    return is_faster and senders_of(schedule) is not None


@lru_cache(maxsize=64)
def _sums_whole(schedule: LineSchedule) -> bool:
    """Return True if a pattern adds whole messages and computes no maxima.

    Messages are whole if they carry all words of a PE, and not only a part.
    """
    arrivals = set(schedule.messages[:, 2].tolist())
    return schedule.parts == 1 and Arrival.ADD in arrivals and not arrivals & {Arrival.MAX, Arrival.ARGMAX}


@lru_cache(maxsize=64)
def _core_s(schedule: LineSchedule, elements: int, element_bytes: int, *, along_columns: bool) -> float:
    """Return the approximate seconds of a core for a pattern, with one line for each variant.

    A variant is a list of messages that some of the lines execute.
    """
    return core_s_of_line(message_spans(schedule, elements, element_bytes), along_columns=along_columns)


def core_s_of_line(spans: npt.NDArray[np.int32], *, along_columns: bool) -> float:
    """Return the approximate seconds of a core for the messages of one line.

    Args:
        spans: int32 ``[m, 5]``, messages from `message_spans`.
        along_columns: Whether the line is a column.
    """
    source, target, arrival, _, elements = spans.astype(np.int64).T
    multicast = arrival == Arrival.MULTICAST
    pes = np.where(multicast, abs(target - source) + 1, 1)
    return float((elements * pes * np.where(multicast | along_columns, VECTOR_S, LANE_S)).sum())
