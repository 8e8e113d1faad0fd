"""Contents of the buffers of single PEs, read from their SRAM when the last step that needs a buffer is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.arena import STORAGE, Arena
from wse.backends.execute.streams import Call
from wse.program.phase import Phase
from wse.program.program import Buffer, Program

Bytes = npt.NDArray[np.uint8]


class PePlace(NamedTuple):
    """A PE of the mesh."""

    wafer: int
    row: int
    col: int


class PeContents:
    """A reader of the buffers of some PEs.

    Buffers that share addresses are read before another one overwrites them.

    A buffer that is always needed is read as the phase ends, one that the last step that needs it writes another over
    before that step. In steps that several users take in turn, the buffers are those of the last. Code has no bytes.
    """

    def __init__(
        self,
        program: Program,
        arenas: Mapping[int, Arena],
        places: Collection[PePlace],
        on_bytes: Callable[[PePlace, int, Bytes], None],
    ) -> None:
        """Create a reader. ``on_bytes`` is called with a PE, the index of a buffer in the Program, and its bytes."""
        self._program, self._arenas, self._places, self._on_bytes = program, arenas, places, on_bytes

    def calls(self, phase: Phase) -> dict[int, list[Call]]:
        """Return the calls that read the buffers of a phase, by the step after which they are made."""
        equal = [index for index, other in enumerate(self._program.phases) if other.steps is phase.steps]
        calls: dict[int, list[Call]] = {}
        for index, buffer in readable_buffers(self._program):
            spans = [(last, first) for live_phase, first, last in buffer.live if live_phase in equal]
            if buffer.live and not spans:
                continue
            after, first = max(spans, default=(len(phase.steps) - 1, 0))
            if first < after and self._is_overwritten(buffer, equal, after):
                after -= 1
            for place in self._places:
                if buffer.stage in self._arenas and holds(self._program, buffer, place):
                    calls.setdefault(after, []).append((self._read, (place, index)))
        return calls

    def _is_overwritten(self, buffer: Buffer, phases: Collection[int], step: int) -> bool:
        """Return whether the last step that needs a buffer is also the first one that overwrites it."""
        begin, end = buffer.address, buffer.address + buffer.bytes
        others = (other for other in self._program.buffers if other.stage == buffer.stage and other is not buffer)
        return any(
            phase in phases and first == step
            for other in others
            if other.address < end and other.address + other.bytes > begin
            for phase, first, _ in other.live
        )

    def _read(self, place: PePlace, index: int) -> None:
        buffer, arena = self._program.buffers[index], self._arenas[self._program.buffers[index].stage]
        stage = self._program.stages[buffer.stage]
        col = place.col - stage.rect.col + (place.wafer - stage.wafer) * stage.rect.cols
        size = np.dtype(STORAGE[buffer.element]).itemsize
        address = (buffer.address - arena.base_byte) // size
        values = arena.read_pe(buffer.element, place.row - stage.rect.row, col, address, buffer.bytes // size)
        self._on_bytes(place, index, values)


def readable_buffers(program: Program) -> list[tuple[int, Buffer]]:
    """Return the buffers that have bytes, with their indices: all except code."""
    return [(index, buffer) for index, buffer in enumerate(program.buffers) if buffer.element in STORAGE]


def holds(program: Program, buffer: Buffer, place: PePlace) -> bool:
    """Return whether a buffer is in the SRAM of a PE."""
    stage = program.stages[buffer.stage]
    rect = stage.rect
    inside = 0 <= place.row - rect.row < rect.rows and 0 <= place.col - rect.col < rect.cols
    return inside and place.wafer in stage.wafers
