"""One phase turned into a list of calls with their arguments made, so that a token runs without look-ups.

The list depends on how many cache slots are in use; a new one is made when that number grows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.execute.arena import Arena
from wse.execute.outputs import Outputs
from wse.execute.routing import Routing
from wse.execute.streams import Streams
from wse.execute.wafer_links import WaferLinks
from wse.isa.instructions import KERNELS, kernel_named
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import COLUMNS, HOST, Field, Kind
from wse_kernels.library import compiled

Call = tuple[Callable[..., None], tuple[Any, ...]]

WORTH_WAKING = 1_000_000
"""Element operations above which a step is spread over the cores; below, waking them costs more than it saves."""

ROUTER: Final = kernel_named("router_choose")
"""The kernel that leaves the ids of the chosen experts."""


class Binder:
    """Binds phases of one Program to arenas, the cache counters of each user, and host streams.

    Where there are ``outputs``, these read between steps what ops made.
    """

    def __init__(
        self,
        program: Program,
        arenas: list[Arena],
        control: list[npt.NDArray[np.int32]],
        streams: Streams,
        routing: Routing,
        outputs: Outputs | None = None,
    ) -> None:
        self._outputs = outputs
        self._program = program
        self._arenas = arenas
        self._control = control
        self._streams = streams
        self._routing = routing
        self._wafer_links = WaferLinks(program, streams, routing)
        self._views = [[arena.view(t) for t in program.element_types] for arena in arenas]

    def bind(self, phase: Phase, slots: int) -> list[Call]:
        """The calls of one run of ``phase`` with ``slots`` cache slots in use on the fullest row of its users."""
        calls: list[Call] = []
        after = {} if self._outputs is None else self._outputs.calls(phase, slots)
        step = 0
        while step < len(phase.steps):
            loop = int(phase.steps.loop[step])
            if loop < 0:
                self._add(calls, phase, step, slots, 0)
                calls += after.get(step, [])
                step += 1
                continue
            first, end, turns = (int(v) for v in phase.steps.loops[loop])
            for turn in range(turns):
                for inside in range(first, end):
                    self._add(calls, phase, inside, slots, turn)
            for inside in range(first, end):
                calls += after.get(inside, [])
            step = end
        return calls

    def _add(self, calls: list[Call], phase: Phase, step: int, slots: int, turn: int) -> None:
        kind, stage = int(phase.steps.kind[step]), int(phase.steps.stage[step])
        arena, views = self._arenas[stage], self._views[stage]
        user = phase.user_of(step, turn)
        a = phase.steps.operands(step, slots, turn if phase.steps.loop[step] >= 0 else user)
        a[2] = arena.blocks_per_row
        view = int(phase.steps.view[step])
        if kind == Kind.COMPUTE:
            kernel = KERNELS[phase.steps.code[step]]
            calls.append(
                (
                    _launch(kernel.name, kernel.work_of(a.tolist()) * arena.blocks * arena.lanes),
                    (*views, self._control[user], a),
                )
            )
            if kernel is ROUTER:
                calls.append(self._routed(arena, phase, step, a))
        elif kind == Kind.LINE:
            calls.append(self._line(arena, views[view], phase, step, a, turn))
        elif kind == Kind.CACHE_SHIFT:
            n = int(a[Field.ELEMENTS])
            operands = [arena.rows, arena.blocks_per_row, int(a[Field.SOURCE]), n, self._words(view, n), arena.cols]
            launch = _launch("cache_shift", n * arena.rows * arena.cols)
            calls.append((launch, (views[view], arena.links, self._control[user], np.array(operands, np.int64))))
        elif kind == Kind.WAFERS:
            calls += self._wafer_links.calls(arena, views[view], phase, step, a)
        elif kind in (Kind.HAND_OVER, Kind.CROSS):
            calls += self._stream(phase, kind, stage, view, a)

    def _routed(self, arena: Arena, phase: Phase, step: int, a: npt.NDArray[np.int64]) -> Call:
        """What notes the ids that a router's last kernel left."""
        named = ROUTER.named(a.tolist())
        layer = self._program.op_layers[phase.steps.op[step]]
        return self._routing.read, (arena, layer, named["ids"], named["M"] * named["A"], named["E"])

    def _line(
        self, arena: Arena, view: npt.NDArray[Any], phase: Phase, step: int, a: npt.NDArray[np.int64], turn: int
    ) -> Call:
        pattern = self._program.patterns[phase.steps.code[step]]
        n = int(a[Field.ELEMENTS])
        varies = len(pattern.first) > 2
        operands = np.array(
            [
                a[0],
                a[1],
                a[2],
                a[Field.SOURCE],
                a[Field.TARGET],
                n,
                self._words(int(phase.steps.view[step]), n),
                varies,
                arena.cols,
            ],
            np.int64,
        )
        variant = pattern.variants[turn % len(pattern.variants)]
        if phase.steps.per_pair[step, Field.ELEMENTS]:
            assert not varies
            operands[5], operands[6] = phase.steps.per_pair[step, Field.ELEMENTS], view.itemsize
            operands = np.append(operands, (a[Field.COUNT], phase.steps.most_pairs[step]))
            launch = _launch("along_columns_counted", n * arena.blocks * arena.lanes)
            counts = arena.view("float32")
            return launch, (view, counts, arena.links, pattern.messages, pattern.first, variant, operands)
        name = "along_columns" if phase.steps.axis[step] == COLUMNS else "along_rows"
        launch = _launch(name, n * arena.blocks * arena.lanes)
        return launch, (view, arena.links, pattern.messages, pattern.first, variant, operands)

    def _stream(self, phase: Phase, kind: int, stage: int, view: int, a: npt.NDArray[np.int64]) -> list[Call]:
        if kind == Kind.CROSS and HOST in (a[Field.FROM_WAFER], a[Field.TO_WAFER]):
            users = range(self._program.batch) if phase.user < 0 else range(phase.user, phase.user + 1)
            return [self._streams.host_call(self._arenas[stage], self._program.element_types[view], a, users)]
        target = int(a[Field.TARGET_STAGE])
        return self._streams.region_call(
            kind,
            stage,
            target,
            self._views[stage][view],
            self._views[target][view],
            a,
            self._words(view, int(a[Field.ELEMENTS])),
        )

    def _words(self, view: int, elements: int) -> int:
        """32-bit words of a message of ``elements``."""
        return -(-elements * self._views[0][view].itemsize // 4)


def _launch(name: str, work: int) -> Callable[..., None]:
    kernel = compiled(name)
    return kernel.parallel if work > WORTH_WAKING else kernel.serial
