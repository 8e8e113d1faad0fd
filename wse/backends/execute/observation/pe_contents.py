"""Contents of the buffers of single PEs, read from SRAM after the last step that needs each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.streams import Call
from wse.backends.execute.host_memory.arena import STORAGE, Arena
from wse.program.program import Program
from wse.program.stage import Buffer
from wse.program.steps import Phase

Bytes = npt.NDArray[np.uint8]


class PePlace(NamedTuple):
    """Position of a PE: the index of its wafer, and its row and column on the mesh."""

    wafer: int
    row: int
    col: int


class PeContents:
    """Observer that reads the contents of all buffers on selected PEs.

    Buffers share addresses, so each buffer is read before another one overwrites it:

    - A buffer that is always live is read at the end of the phase.
    - Any other buffer is read after the last step that needs it. If that step also writes another
      buffer over it, the buffer is read before the step.
    - For steps that are repeated for several users, the contents for the last user are read.

    Code is not read, because the emulator stores no bytes for it.
    """

    def __init__(
        self,
        program: Program,
        arenas: Mapping[int, Arena],
        places: Collection[PePlace],
        on_bytes: Callable[[PePlace, int, Bytes], None],
    ) -> None:
        """Create an observer that reads the buffers of some PEs.

        Args:
            program: The compiled Program.
            arenas: Emulated SRAM of each stage, keyed by the index of the stage.
            places: The PEs to read.
            on_bytes: Function that receives a PE, the index of a buffer in the Program, and the
                bytes of the buffer.
        """
        self._program, self._arenas, self._places, self._on_bytes = program, arenas, places, on_bytes

    def calls(self, phase: Phase) -> dict[int, list[Call]]:
        """Return the function calls that read the buffers while a phase runs.

        The key is the index of the step after which the calls are made.
        """
        same_steps = [
            index for index, other_phase in enumerate(self._program.phases) if other_phase.steps is phase.steps
        ]
        calls: dict[int, list[Call]] = {}
        for index, buffer in readable_buffers(self._program):
            spans = [(last, first) for live_phase, first, last in buffer.live if live_phase in same_steps]
            if buffer.live and not spans:
                continue
            read_step, first = max(spans, default=(len(phase.steps) - 1, 0))
            if first < read_step and self._is_overwritten(buffer, same_steps, read_step):
                read_step -= 1
            for place in self._places:
                if buffer.stage in self._arenas and has_buffer(self._program, buffer, place):
                    calls.setdefault(read_step, []).append((self._read, (place, index)))
        return calls

    def _is_overwritten(self, buffer: Buffer, phases: Collection[int], step: int) -> bool:
        """Return True if the last step that needs a buffer also writes another buffer over it.

        Args:
            buffer: Buffer that may be overwritten.
            phases: Indices of phases with the same steps.
            step: Last step that needs the buffer.
        """
        begin, end = buffer.address, buffer.address + buffer.bytes
        return any(
            phase in phases and first == step
            for other_buffer in self._program.buffers
            if other_buffer.stage == buffer.stage and other_buffer is not buffer
            if other_buffer.address < end and other_buffer.address + other_buffer.bytes > begin
            for phase, first, _ in other_buffer.live
        )

    def _read(self, place: PePlace, index: int) -> None:
        """Read a buffer of a PE and report its bytes."""
        buffer, arena = self._program.buffers[index], self._arenas[self._program.buffers[index].stage]
        stage = self._program.stages[buffer.stage]
        col = place.col - stage.rect.col + (place.wafer - stage.wafer) * stage.rect.cols
        size = np.dtype(STORAGE[buffer.element]).itemsize
        address = (buffer.address - arena.base_byte) // size
        values = arena.read_pe(buffer.element, place.row - stage.rect.row, col, address, buffer.bytes // size)
        self._on_bytes(place, index, values)


def readable_buffers(program: Program) -> list[tuple[int, Buffer]]:
    """Return all buffers except code, each with its index in the Program: (index, buffer)."""
    return [(index, buffer) for index, buffer in enumerate(program.buffers) if buffer.element in STORAGE]


def has_buffer(program: Program, buffer: Buffer, place: PePlace) -> bool:
    """Return True if a PE belongs to the region that stores a buffer."""
    stage = program.stages[buffer.stage]
    rect = stage.rect
    is_in_region = 0 <= place.row - rect.row < rect.rows and 0 <= place.col - rect.col < rect.cols
    return is_in_region and place.wafer in stage.wafers
