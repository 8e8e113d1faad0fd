"""Binding: conversion of a phase to a list of calls, so that tokens are executed without look-ups.

The list depends on the number of cache slots in use. A new list is made when this number changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.line_loads import LineLoads
from wse.backends.execute.calls.streams import Call, Streams
from wse.backends.execute.calls.transfer_calls import TransferCalls
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.observation.outputs import Outputs, Routing
from wse.backends.execute.observation.pe_contents import PeContents
from wse.number_formats import ELEMENT_BYTES
from wse.program.expert_pairs import experts_at_positions
from wse.program.isa.instructions import CODES, KERNELS, kernel_named
from wse.program.isa.kernel import Kernel
from wse.program.program import Program
from wse.program.steps import Phase, Slots, StepKind, Steps
from wse_kernels.library import compiled_kernel

BLOCK_S: Final = 1e-7
"""Approximate time in seconds that a core needs to start a block with prefetched operands."""
MAX_BYTES_AHEAD: Final = 8192
"""Maximum size of an operand, over all lanes of a block, that is prefetched.

Larger operands are prefetched well enough by hardware, once they are read sequentially.
"""
CACHED_PHASES: Final = 4
"""Maximum number of phases whose calls are cached. A prompt chunk may have ten thousand calls.

Phases for which kernels were just compiled are run next, so they need not be bound again.
"""

CALLS_BETWEEN_CHECKS: Final = 16
"""Number of kernel calls between two checks whether other programs need the cores."""

ROUTER: Final = kernel_named("router_choose")
"""Kernel that writes the ids of the selected experts."""


class BoundPhase(NamedTuple):
    """Phase of a Program as a list of function calls that emulate its steps.

    Attributes:
        phase: Prefill chunk, decode pass or verification pass of the Program.
        slots: For each stage (a group of layers), the number of cached tokens on its fullest row of
            PEs. Kernel operands depend on it.
        calls: Functions and arguments, in order of execution.
        steps: For each call, the index of the step that it executes.
        loads: Number of executions of each transfer along rows or columns. The key is the stage and
            the words that the transfer sends over links (`LineLoads`). The words on links are
            computed from this table, because the calls of these transfers do not count them.
    """

    phase: Phase
    slots: Slots
    calls: list[Call]
    steps: list[int]
    loads: Counter[tuple[int, LineLoads]]

    def run(self, adapt: Callable[[], None]) -> None:
        """Execute the calls.

        Args:
            adapt: Function that is called after every few calls. It reduces the number of threads
                while other programs need the CPU cores.
        """
        for first in range(0, len(self.calls), CALLS_BETWEEN_CHECKS):
            for function, arguments in self.calls[first : first + CALLS_BETWEEN_CHECKS]:
                function(*arguments)
            adapt()


class Binder:
    """Factory that turns phases of one Program into lists of function calls (bound phases).

    A phase is a prefill chunk, a decode pass or a verification pass.

    Args:
        program: The compiled Program.
        arenas: SRAM of the stages in this process; the key is the stage. Steps of other stages are
            left out.
        control: KV-cache counters that kernels read, indexed by user and stage.
        streams: Data exchanged with the host, and counters of words that leave regions.
        routing: Record of the experts that the tokens are routed to.
        outputs: Object that reads the outputs of ops between steps, or None.

    Attributes:
        contents: Object that reads buffers of individual PEs between steps, in the last iteration
            of a loop; None to read nothing. Setting it affects only phases that are bound
            afterwards.
    """

    def __init__(
        self,
        program: Program,
        arenas: Mapping[int, Arena],
        control: list[list[npt.NDArray[np.int32]]],
        streams: Streams,
        routing: Routing,
        outputs: Outputs | None = None,
    ) -> None:
        self._outputs = outputs
        self.contents: PeContents | None = None
        self._program = program
        self._arenas = arenas
        self._control = control
        self._routing = routing
        self._views = {stage: [arena.view(t) for t in program.element_types] for stage, arena in arenas.items()}
        self._moves = TransferCalls(program, arenas, self._views, control, streams, routing)
        self.crossings = self._moves.crossings
        self._equal: dict[tuple[Steps, bool, int], Phase] = {}  # first phase of those with equal calls
        self._bound = lru_cache(maxsize=CACHED_PHASES)(self._bind)

    def bind(self, phase: Phase, slots: Slots) -> BoundPhase:
        """Turn a phase into a list of function calls, or return a recent list from a cache.

        Prompt chunks with the same steps and the same number of cache slots share one list.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs, for the user with the longest cache.
        """
        return self._bound(self._equal.setdefault((phase.steps, phase.begins, phase.user), phase), slots)

    def calls_by_types(self) -> list[Call]:
        """Return calls that together use each function with all element types that occur.

        There is one call for each combination of a function and the element types of its arguments.
        Kernels are compiled per combination, so compiling these calls compiles all that the Program
        needs.
        """
        distinct_calls: dict[tuple[object, ...], Call] = {}
        for phase in {phase.steps: phase for phase in self._program.phases}.values():
            slots = self._program.cache_slots(phase.cached + phase.tokens)
            for call in self.bind(phase, slots).calls:
                function, arguments = call
                types = tuple(getattr(a, "dtype", None) for a in arguments)
                distinct_calls.setdefault((function, *types), call)
        return list(distinct_calls.values())

    def _bind(self, phase: Phase, slots: Slots) -> BoundPhase:
        """Turn a phase into a list of function calls, without using the cache of `bind`.

        Besides the calls that execute steps, the list contains calls that read results:

        - Outputs of ops and selected experts are read after a step. If the step is in a loop, they
          are read once, after all iterations of the loop.
        - The contents of PEs are also read after a step. In a loop, this happens within the last
          iteration, before the next step may overwrite them.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs, for the user with the longest cache.
        """
        bound = BoundPhase(phase, slots, [], [], Counter())
        calls_after_step = self._reads_of_choices(phase, slots)
        for step, calls in ({} if self._outputs is None else self._outputs.calls(phase, slots)).items():
            calls_after_step.setdefault(step, []).extend(calls)
        content_calls = {} if self.contents is None else self.contents.calls(phase)
        step = 0
        while step < len(phase.steps):
            loop, iterations = int(phase.steps.loop[step]), phase.steps.iterations(step)
            end = step + 1 if loop < 0 else int(phase.steps.loops[loop, 1])
            for iteration in range(iterations):
                for loop_step in range(step, end):
                    self._add(bound, loop_step, iteration)
                    if iteration == iterations - 1:
                        _append(bound, loop_step, content_calls.get(loop_step, []))
            for loop_step in range(step, end):
                _append(bound, loop_step, calls_after_step.get(loop_step, []))
            step = end
        return bound

    def _add(self, bound: BoundPhase, step: int, iteration: int) -> None:
        """Add the function calls that execute one iteration of a step to a bound phase.

        Args:
            bound: The phase as a list of calls, which is extended.
            step: Index of the step.
            iteration: Iteration of the step's loop.
        """
        phase, slots = bound.phase, bound.slots
        place = phase, step, slots, iteration, phase.user_of(step, iteration)
        if phase.steps.computes(step):
            _append(bound, step, self._compute(*place))
            return
        _append(bound, step, self._moves.calls(*place))
        stage = int(phase.steps.stage[step])
        loads = self._moves.loads(phase, step, slots, iteration) if stage in self._arenas else None
        if loads is not None:
            bound.loads[stage, loads] += 1

    def _compute(self, phase: Phase, step: int, slots: Slots, iteration: int, user: int) -> list[Call]:
        """Return the kernel call of a compute step, as a one-element list.

        The list is empty if the stage is in another process.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
            iteration: Iteration of the step's loop.
            user: User whose KV-cache counters the kernel reads.
        """
        kernel, stage = KERNELS[phase.steps.code[step]], int(phase.steps.stage[step])
        if stage not in self._arenas:
            return []
        arena = self._arenas[stage]
        step_operands = phase.steps.operands(step, slots, phase.round_of(step, iteration))
        rows = step_operands[1]  # operands 0 to 2: first row, rows, blocks of a row
        step_operands[2] = arena.blocks_per_row
        compiled, memory = compiled_kernel(kernel.name), (*self._views[stage], self._control[user][stage])
        core_s = (kernel.core_s(step_operands) * arena.lanes + BLOCK_S) * rows * arena.blocks_per_row
        function = compiled.for_time(core_s)
        operands = np.array([*step_operands, *self._prefetch_ranges(kernel, stage, step_operands)], np.int64)
        return [(function, (*(memory[i] for i in compiled.takes), operands))]

    def _prefetch_ranges(self, kernel: Kernel, stage: int, operands: list[int]) -> list[int]:
        """Return the memory ranges of a kernel's operands that are small enough to be prefetched.

        Returns:
            For each range, its first byte and its length in bytes, in one flat list. The first byte
            is counted from the start of a block in memory. A block is a group of neighbouring PEs,
            which a kernel processes together; its memory contains the bytes of all its PEs.
        """
        arena, ranges = self._arenas[stage], []
        for operand in kernel.operands:
            if operand.view and operand.extent is not None:
                size = ELEMENT_BYTES[self._program.element_type(operand.view)] * arena.lanes
                elements = kernel.elements(operand.name, operands)
                if elements * size <= MAX_BYTES_AHEAD:
                    ranges += [operands[kernel.index[operand.name]] * size, elements * size]
        return ranges

    def _reads_of_choices(self, phase: Phase, slots: Slots) -> dict[int, list[Call]]:
        """Return the calls that record which experts the tokens are routed to.

        Returns:
            Lists of calls. The key is the index of the step after which the calls are made: the
            last step of the router of a layer.
        """
        reads: dict[int, list[Call]] = {}
        chooses = (phase.steps.kind == StepKind.COMPUTE) & (phase.steps.code == CODES[ROUTER.name])
        for step in np.flatnonzero(chooses).tolist():
            stage, op = int(phase.steps.stage[step]), phase.steps.op[step]
            if stage in self._arenas:
                operands = ROUTER.by_name(phase.steps.operands(step, slots))
                layer, last = self._program.op_layers[op], int(np.flatnonzero(phase.steps.op == op)[-1])
                order = experts_at_positions(self._program, layer, operands["E"])
                count = operands["M"] * operands["A"]
                call = (self._routing.read, (self._arenas[stage], layer, operands["ids"], count, order))
                reads.setdefault(last, []).append(call)
        return reads


def _append(bound: BoundPhase, step: int, calls: list[Call]) -> None:
    """Append the function calls that execute a step to the calls of its phase.

    Args:
        bound: The phase as a list of function calls with their arguments. It is extended.
        step: Index of the step.
        calls: Functions and arguments.
    """
    bound.calls.extend(calls)
    bound.steps.extend([step] * len(calls))
