"""Wall times of a run's steps: where this computer spends its time during emulation.

Every call of a pass is timed. The bytes of a step are the minimum that must be accessed: for a
kernel, its operands on all lanes of its rows, each counted once; for a transfer, its elements, once
for each PE that takes part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.backends.execute.calls.bind import BoundPhase
from wse.backends.execute.host_memory.arena import Arena
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import VIEWS
from wse.program.program import Program
from wse.program.steps import Phase, Slots, Steps
from wse.program.transfers.messages import HostWords, LineMessages
from wse.program.transfers.transfer_types import transfer_of


def read_bytes_per_s(memory: npt.NDArray[Any], repeats: int = 5) -> float:
    """Measure the rate, in bytes per second, at which all cores together read an array.

    Each core sums a part of the array with numpy. The result is the rate of the fastest of several
    readings, after one warm-up reading that is not counted.

    Args:
        memory: Any array.
        repeats: Number of readings.
    """
    words = memory.reshape(-1).view(np.uint8)[: memory.nbytes // 8 * 8].view(np.uint64)
    cores = os.cpu_count() or 1
    parts = np.array_split(words, cores)
    seconds = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(repeats + 1):
            began = time.perf_counter()
            list(pool.map(np.sum, parts))
            seconds.append(time.perf_counter() - began)
    return float(words.nbytes / min(seconds[1:]))


@dataclass(slots=True, kw_only=True, eq=False)
class PassTimes:
    """Measured times of a sequence of steps, summed over all passes that ran it.

    Attributes:
        phase: First phase that ran these steps.
        s: float64 ``[steps]``, time of each step in seconds.
        bytes: int64 ``[steps]``, minimum number of bytes that each step must access.
    """

    phase: Phase
    s: F64
    bytes: I64


class StepTimes:
    """Measured times of the steps of all passes, for the stages in this process.

    Args:
        program: The compiled Program.
        arenas: Emulated SRAM of each stage in this process, keyed by the index of the stage.
        read_bytes_per_s: Function that measures the rate at which all cores read memory. None
            uses a function that reads the largest arena (the emulated SRAM of a region of PEs).

    Attributes:
        passes_s: Total seconds that the other process spent in the functions that run passes.
    """

    def __init__(
        self,
        program: Program,
        arenas: Mapping[int, Arena],
        read_bytes_per_s: Callable[[], float] | None = None,
    ) -> None:
        self._program, self._arenas = program, arenas
        self.read_bytes_per_s = read_bytes_per_s or self._read_bytes_per_s
        self._by_steps: dict[Steps, PassTimes] = {}
        self._bytes = lru_cache(maxsize=64)(self._bytes_of_steps)
        self.passes_s = 0.0

    def __iter__(self) -> Iterator[PassTimes]:
        """Return an iterator over the times of each sequence of steps, in order of first use."""
        return iter(self._by_steps.values())

    @property
    def by_phase(self) -> dict[int, tuple[F64, I64]]:
        """Seconds and bytes per step, keyed by the index of the first phase that ran the step.

        The result can be sent to another process and passed to `add` there.
        """
        return {self._program.phases.index(times.phase): (times.s, times.bytes) for times in self}

    def add(self, by_phase: Mapping[int, tuple[F64, I64]], passes_s: float) -> None:
        """Add the times and bytes that another process measured.

        Args:
            by_phase: The other process's property `by_phase`: seconds and bytes of each step, keyed by
                phase.
            passes_s: Total seconds that the other process spent in the functions that run passes.
        """
        self.passes_s += passes_s
        for index, (s, size) in by_phase.items():
            times = self._times_of(self._program.phases[index])
            times.s += s
            times.bytes += size

    def _read_bytes_per_s(self) -> float:
        """Measure how fast all cores together read memory, in bytes per second.

        They read the largest arena (emulated SRAM of a region of PEs) of this process.
        """
        return read_bytes_per_s(max((arena.memory for arena in self._arenas.values()), key=len))

    def run(self, bound: BoundPhase, adapt_cores: Callable[[], None]) -> None:
        """Execute the calls of a phase, and add the time of each call to the total of its step.

        Args:
            bound: The phase and its calls.
            adapt_cores: Function to call after each call, which adapts the number of threads to the
                available cores. It is not timed.
        """
        clock, calls_ns = time.perf_counter_ns, []
        for function, arguments in bound.calls:
            call_ns = clock()
            function(*arguments)
            calls_ns.append(clock() - call_ns)
            adapt_cores()
        self.passes_s += sum(calls_ns) / 1e9
        times, steps = self._times_of(bound.phase), np.array(bound.steps, int)
        count = len(bound.phase.steps)
        times.s += np.bincount(steps, np.array(calls_ns) / 1e9, count)
        times.bytes += self._bytes(bound.phase, bound.slots) * (np.bincount(steps, minlength=count) > 0)

    def _times_of(self, phase: Phase) -> PassTimes:
        """Return the record to which measured times of a phase's steps are added.

        Phases with the same steps share a record. A new record contains zeros.
        """
        if phase.steps not in self._by_steps:
            count = len(phase.steps)
            zeros = np.zeros(count, np.int64)
            self._by_steps[phase.steps] = PassTimes(phase=phase, s=np.zeros(count), bytes=zeros)
        return self._by_steps[phase.steps]

    def _bytes_of_steps(self, phase: Phase, slots: Slots) -> I64:
        """Return the minimum number of bytes that each step must access, int64 ``[steps]``.

        The number is 0 for steps of stages in other processes.
        """
        sizes = np.zeros(len(phase.steps), np.int64)
        for step in np.flatnonzero(np.isin(phase.steps.stage, list(self._arenas))).tolist():
            step_bytes = self._kernel_bytes if phase.steps.computes(step) else self._transfer_bytes
            sizes[step] = step_bytes(phase, step, slots)
        return sizes

    def _kernel_bytes(self, phase: Phase, step: int, slots: Slots) -> int:
        """Return the minimum bytes that a kernel step accesses on all its PEs, over all iterations.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
        """
        kernel, arena = KERNELS[phase.steps.code[step]], self._arenas[phase.steps.stage[step]]
        sizes = {view: ELEMENT_BYTES[name] for view, name in zip(VIEWS, self._program.element_types, strict=True)}
        iterations, total = phase.steps.iterations(step), 0
        for iteration in range(iterations):
            operands = phase.steps.operands(step, slots, phase.round_of(step, iteration))
            accessed_bytes = sum(
                kernel.elements_used(operand.name, operands) * sizes[operand.view]
                for operand in kernel.operands
                if operand.view and operand.extent is not None
            )
            rows = operands[1]
            total += rows * max(accessed_bytes, kernel.bytes_read(operands, sizes))
        return int(total * arena.blocks_per_row * arena.lanes)

    def _transfer_bytes(self, phase: Phase, step: int, slots: Slots) -> int:
        """Return the bytes that a transfer step moves on all its PEs, over all iterations.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
        """
        arena, iterations, total = self._arenas[phase.steps.stage[step]], phase.steps.iterations(step), 0
        for iteration in range(iterations):
            transfer = transfer_of(self._program, phase, step, slots, phase.round_of(step, iteration))
            size = ELEMENT_BYTES[self._program.element_types[transfer.site.view]] * transfer.elements
            match transfer.messages:
                case HostWords():
                    total += size
                case LineMessages() as messages:
                    total += size * messages.rows * arena.cols
                case _:
                    total += size * arena.rows * arena.cols
        return total
