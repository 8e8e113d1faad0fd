"""Binding: a phase becomes a list of calls with their arguments, so that a token runs without look-ups.

The list depends on how many cache slots are in use; a new one is made when that number grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.arena import Arena
from wse.backends.execute.line_loads import LineLoads
from wse.backends.execute.outputs import Outputs, Routing
from wse.backends.execute.pe_contents import PeContents
from wse.backends.execute.streams import Call, Streams
from wse.backends.execute.transfer_calls import TransferCalls
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.instructions import CODES, KERNELS, kernel_named
from wse.program.isa.kernel import Kernel
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind, Slots, Steps
from wse_kernels.library import compiled_kernel

BLOCK_S: Final = 1e-7
"""Seconds of a core to come to a block whose operands were fetched, about."""
MOST_BYTES_AHEAD: Final = 8192
"""Bytes of an operand, in all lanes of a block: more are fetched soon enough once they are read one after another."""
KEPT: Final = 4
"""Phases that stay bound: those that kernels were compiled for are run next. A chunk may have ten thousand calls."""

ROUTER: Final = kernel_named("router_choose")
"""The kernel that leaves the ids of the chosen experts."""


class BoundPhase(NamedTuple):
    """A phase prepared for execution: its calls in order, the step of each, and the cache slots that they depend on.

    ``loads`` has how often each transfer loads links of a stage, by the stage, where its calls do not count that.
    """

    phase: Phase
    slots: Slots
    calls: list[Call]
    steps: list[int]
    loads: Counter[tuple[int, LineLoads]]


class Binder:
    """A factory of bound phases of one Program, for given arenas, cache counters and host streams.

    Steps of stages without an arena make no calls. ``outputs``, where given, read the results of ops between steps.

    Attributes:
        contents: What reads buffers of single PEs between steps, the last turn of a loop's; None: nothing. It counts
            for phases that are bound from then on.
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
        self._equal: dict[tuple[Steps, bool, int], Phase] = {}  # the first of those that make the same calls
        self._bound = lru_cache(maxsize=KEPT)(self._bind)

    def bind(self, phase: Phase, slots: Slots) -> BoundPhase:
        """Return a phase bound for ``slots`` cache slots of the user with the most. The last results are cached.

        Chunks of a prompt that go through the same steps with as many slots are bound once.
        """
        return self._bound(self._equal.setdefault((phase.steps, phase.begins, phase.user), phase), slots)

    def _bind(self, phase: Phase, slots: Slots) -> BoundPhase:
        bound = BoundPhase(phase, slots, [], [], Counter())
        after = self._reads_of_choices(phase, slots)
        for step, calls in ({} if self._outputs is None else self._outputs.calls(phase, slots)).items():
            after.setdefault(step, []).extend(calls)
        seen = {} if self.contents is None else self.contents.calls(phase)
        step = 0
        while step < len(phase.steps):
            loop = int(phase.steps.loop[step])
            if loop < 0:
                self._add(bound, step, 0)
                _append(bound, step, seen.get(step, []))
                _append(bound, step, after.get(step, []))
                step += 1
                continue
            first, end, turns = (int(v) for v in phase.steps.loops[loop])
            for turn in range(turns):
                for inside in range(first, end):
                    self._add(bound, inside, turn)
                    if turn == turns - 1:
                        _append(bound, inside, seen.get(inside, []))
            for inside in range(first, end):
                _append(bound, inside, after.get(inside, []))
            step = end
        return bound

    def _add(self, bound: BoundPhase, step: int, turn: int) -> None:
        phase, slots = bound.phase, bound.slots
        place = phase, step, slots, turn, phase.user_of(step, turn)
        if phase.steps.computes(step):
            _append(bound, step, self._compute(*place))
            return
        _append(bound, step, self._moves.calls(*place))
        stage = int(phase.steps.stage[step])
        loads = self._moves.loads(phase, step, slots, turn) if stage in self._arenas else None
        if loads is not None:
            bound.loads[stage, loads] += 1

    def _compute(self, phase: Phase, step: int, slots: Slots, turn: int, user: int) -> list[Call]:
        kernel, stage = KERNELS[phase.steps.code[step]], int(phase.steps.stage[step])
        if stage not in self._arenas:
            return []
        arena = self._arenas[stage]
        a = phase.steps.operands(step, slots, phase.round_of(step, turn))
        a[2] = arena.blocks_per_row
        compiled, memory = compiled_kernel(kernel.name), (*self._views[stage], self._control[user][stage])
        function = compiled.for_time((kernel.core_s(a) * arena.lanes + BLOCK_S) * a[1] * arena.blocks_per_row)
        operands = np.array([*a, *self._stretches(kernel, stage, a)], np.int64)
        return [(function, (*(memory[i] for i in compiled.takes), operands))]

    def _stretches(self, kernel: Kernel, stage: int, a: list[int]) -> list[int]:
        """Return the first byte and the length of each operand that is worth prefetching for a block."""
        arena, found = self._arenas[stage], []
        for operand in kernel.operands:
            if operand.view and operand.extent is not None:
                size = ELEMENT_BYTES[self._program.element_type(operand.view)] * arena.lanes
                elements = kernel.elements(operand.name, a)
                if elements * size <= MOST_BYTES_AHEAD:
                    found += [a[kernel.index[operand.name]] * size, elements * size]
        return found

    def _reads_of_choices(self, phase: Phase, slots: Slots) -> dict[int, list[Call]]:
        """Return the calls that record the ids of chosen experts, by the last step of each router."""
        reads: dict[int, list[Call]] = {}
        chooses = (phase.steps.kind == Kind.COMPUTE) & (phase.steps.code == CODES[ROUTER.name])
        for step in np.flatnonzero(chooses).tolist():
            stage, op = int(phase.steps.stage[step]), phase.steps.op[step]
            if stage in self._arenas:
                operands = ROUTER.by_name(phase.steps.operands(step, slots))
                chosen = operands["ids"], operands["M"] * operands["A"], operands["E"]
                last = int(np.flatnonzero(phase.steps.op == op)[-1])
                call = (self._routing.read, (self._arenas[stage], self._program.op_layers[op], *chosen))
                reads.setdefault(last, []).append(call)
        return reads


def _append(bound: BoundPhase, step: int, calls: list[Call]) -> None:
    bound.calls.extend(calls)
    bound.steps.extend([step] * len(calls))
