"""Calls that execute the messages of a transfer, with a different method for each message type.

Words on links of the mesh are counted in three places:

- by kernels, if the number of words depends on the contents of PEs
- by `wse.backends.execute.calls.line_loads`, if it does not
- by `wse.backends.execute.calls.streams`, for transfers that leave their wafer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.line_calls import VECTOR_S, LineCalls
from wse.backends.execute.calls.line_loads import LineLoads
from wse.backends.execute.calls.streams import Call, Streams
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.observation.outputs import Routing
from wse.program.expert_pairs import pairs_of_columns
from wse.program.program import Program
from wse.program.steps import COLUMNS, Phase, Slots
from wse.program.transfers.messages import HostWords, LineMessages, RowShift, Translation
from wse.program.transfers.stage_streams import Crossing
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import TRANSFERS, transfer_of
from wse_kernels.library import compiled_kernel


class TransferCalls:
    """Factory of the function calls that execute the transfers of one Program.

    Args:
        program: The compiled Program.
        arenas: Emulated SRAM of each stage in this process, keyed by the index of the stage.
        views: For each of these stages, its SRAM as one array per element type.
        control: KV-cache counters that kernels read, indexed by user and stage.
        streams: Data exchanged with the host, and counters of words that leave regions.
        routing: Record of the experts that the tokens are routed to.

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
        self._lines = LineCalls(program, arenas, views)
        self.crossings: dict[int, npt.NDArray[Any]] = {}

    def calls(self, phase: Phase, step: int, slots: Slots, iteration: int, user: int) -> list[Call]:
        """Return the function calls that execute one transfer step in one iteration of its loop.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
            iteration: Iteration of the loop.
            user: User whose KV-cache counters the step depends on.
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
                return [self._lines.counted_call(phase, step, transfer, messages)]
            case LineMessages() as messages:
                return self._with_count(transfer, self._lines.call(transfer, messages))

    def _with_count(self, transfer: Transfer, call: Call) -> list[Call]:
        """Return the call that executes a transfer and, if needed, a call that counts its words.

        Words are counted by a separate call if the transfer leaves its wafer.
        """
        return [call, (self._streams.count, (transfer,))] if transfer.leaves_wafer else [call]

    def _row_shift(self, transfer: Transfer, user: int) -> Call:
        """Return the call of kernel ``cache_shift``, which moves cache entries to the row above."""
        site, n = transfer.site, transfer.elements
        arena = self._arenas[site.stage]
        operands = [arena.rows, arena.blocks_per_row, transfer.source, n, transfer.words, arena.cols]
        arguments = (self._view(transfer), arena.links, self._control[user][site.stage], np.array(operands, np.int64))
        return compiled_kernel("cache_shift").for_time(n * arena.rows * arena.cols * VECTOR_S), arguments

    def _crossing(self, step: int, transfer: Transfer, messages: Translation) -> list[Call]:
        """Return the calls of a transfer between wafers that different processes emulate.

        If the sending or the receiving wafer is in this process, the calls send or receive the
        words and count them. Otherwise, the list is empty.

        Args:
            step: Index of the step.
            transfer: The transfer (a step that moves words).
            messages: Which rows send which words to which rows of the other region.
        """
        count: Call = (self._streams.count, (transfer,))
        if transfer.site.stage in self._arenas:
            return [(self._send, (step, transfer, messages)), count]
        if messages.target_stage in self._arenas:
            return [(self._receive, (step, transfer, messages)), count]
        return []

    def _send(self, step: int, transfer: Transfer, messages: Translation) -> None:
        """Store in ``crossings`` the words that a transfer sends to a stage in another process.

        The array of words has the shape ``[rows x blocks, elements, lanes]`` and contains the
        blocks with sending columns. A block is a group of neighbouring PEs of a row, and a lane is
        one PE of the block.

        Args:
            step: Index of the step, which is the key in ``crossings``.
            transfer: The transfer (a step that moves words).
            messages: Which rows and columns send words.
        """
        arena, first, last = self._arenas[transfer.site.stage], messages.source_col, messages.cols - 1
        block, lane = divmod(first, arena.lanes)
        blocks = slice(block, (first + last) // arena.lanes + 1)
        lanes = slice(lane, lane + last + 1) if blocks.stop == block + 1 else slice(None)
        by_row = self._view(transfer).reshape(arena.rows, arena.blocks_per_row, -1, arena.lanes)
        tiles = by_row[:, blocks, transfer.source : transfer.source + transfer.elements, lanes]
        self.crossings[step] = np.array(tiles, order="C").reshape(-1, *tiles.shape[2:])

    def _receive(self, step: int, transfer: Transfer, messages: Translation) -> None:
        """Copy words that another process has sent from ``crossings`` to the SRAM of the receivers.

        `_send` describes the shape of the array in ``crossings``.

        Args:
            step: Index of the step.
            transfer: The transfer (a step that moves words).
            messages: Which rows send which words to which rows of the other region.
        """
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
            transfer: The transfer (a step that moves words).
            messages: Which rows send which words to which rows of the other region.
            remote_tiles: If the sending stage is in another process, its words, and the number of
                blocks (groups of neighbouring PEs) in each of its rows; otherwise None.
        """
        source, target = transfer.site.placed_stage, self._program.stages[messages.target_stage]
        on_mesh = not (transfer.leaves_wafer or transfer.in_memory)
        target_blocks, vectors = self._arenas[messages.target_stage].blocks_per_row, messages.vectors
        if remote_tiles is None:
            source_view, blocks = self._view(transfer), self._arenas[transfer.site.stage].blocks_per_row
            address = transfer.source
        else:
            (source_view, blocks), address = remote_tiles, 0
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
        links = self._streams.links[target.wafer]
        arguments = (source_view, target_view, links, messages.pieces, words, operands)
        return compiled_kernel("hand_over").serial, arguments

    def loads(self, phase: Phase, step: int, slots: Slots, iteration: int) -> LineLoads | None:
        """Return which words a transfer sends over links in one iteration of its loop.

        The result is None if these words need not be counted later, because the kernel of the
        transfer or `Streams` counts them.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
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

    def _move_between_chosen(self, phase: Phase, step: int, slots: Slots, iteration: int) -> None:
        """Run a transfer only between the wafers that store experts selected in this pass.

        This function is called while the pass runs, because the selection is not known earlier.
        """
        stage, layer = int(phase.steps.stage[step]), self._program.op_layers[phase.steps.op[step]]
        columns = pairs_of_columns(self._program, stage, layer, self._routing.pairs[layer])
        chosen_wafers = self._program.chosen_wafers(stage, columns)
        transfer = transfer_of(self._program, phase, step, slots, iteration, chosen_wafers)
        assert isinstance(transfer.messages, LineMessages)
        function, arguments = self._lines.call(transfer, transfer.messages)
        function(*arguments)
        self._streams.count(transfer)

    def _view(self, transfer: Transfer) -> npt.NDArray[Any]:
        """Return the SRAM of the sending stage as an array of the transfer's element type.

        The array has the axes ``[block, element, lane]``, as in `Arena.view`.
        """
        return self._views[transfer.site.stage][transfer.site.view]
