"""The traffic of a phase, counted step class by step class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.links.link_map import NOTHING
from wse.backends.fabric.links.routes import Routes
from wse.backends.fabric.links.traffic import StepTraffic, Traffic
from wse.backends.fabric.phase_cost import PhaseTraffic
from wse.backends.fabric.step_classes import by_slots, step_classes
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots, Steps


class TrafficCounts:
    """The traffic of the phases of a Program without steps that depend on the choice of experts, with a cache.

    ``classes`` and ``shape_classes`` give those of steps, as `step_classes` does, all stages apart and by the shapes
    of their regions.
    """

    def __init__(self, program: Program, routes: Routes, traffic: Traffic) -> None:
        self._program, self._routes, self._traffic = program, routes, traffic
        shapes = [(stage.rect.rows, stage.rect.cols, stage.span) for stage in program.stages]
        shape_numbers = np.array([shapes.index(shape) for shape in shapes], np.int64)
        self.classes, self.shape_classes = cache(step_classes), cache(partial(step_classes, shapes=shape_numbers))
        self._of_any_slots: dict[Steps, tuple[I64, I64]] = {}  # traffic that does not depend on cache slots

    def of(self, phase: Phase, slots: Slots) -> PhaseTraffic:
        """Return the traffic of all steps except those that depend on the choice and cache shifts."""
        grows, unrouted = by_slots(phase.steps), ~phase.steps.routed

        def moved_by(step: int) -> StepTraffic:
            return self._traffic.step_traffic(phase, step, slots)

        if phase.steps not in self._of_any_slots:
            self._of_any_slots[phase.steps] = self._traffic_of(phase, np.flatnonzero(~grows & unrouted), moved_by)
        fixed, rectangles = self._of_any_slots[phase.steps]
        growing, slot_rectangles = self._traffic_of(phase, np.flatnonzero(grows & unrouted), moved_by)
        words, hops, payload = fixed + growing
        return PhaseTraffic(
            words=words, hops=hops, bytes=payload, rectangles=rectangles, by_slots=slot_rectangles, shifts=NOTHING
        )

    def shifts(self, phase: Phase, steps: I64, slots: Slots, lengths: Sequence[int]) -> tuple[I64, I64]:
        """Return words, hops and bytes of cache shifts, int64 ``[3, steps]``, and the rectangles of their links.

        ``steps`` are those of the phase that shift caches.
        """
        return self._traffic_of(phase, steps, lambda step: self._traffic.shift_traffic(phase, step, slots, lengths))

    def _traffic_of(self, phase: Phase, counted: I64, moved_by: Callable[[int], StepTraffic]) -> tuple[I64, I64]:
        """Return words, hops and bytes of some steps, int64 ``[3, steps]`` (0 for others), and the rectangles of
        their links.

        ``moved_by``: the traffic of a step.
        """
        classes = self.shape_classes(phase.steps) if self._routes.whole else self.classes(phase.steps)
        kinds, which = np.unique(classes[counted], return_inverse=True)
        moved = [moved_by(step) for step in kinds.tolist()]
        totals = np.zeros((3, len(phase.steps)), np.int64)
        totals[:, counted] = np.array([(m.words, m.hops, m.bytes) for m in moved], np.int64).reshape(-1, 3)[which].T
        counts = np.zeros((len(kinds), len(self._program.stages)), np.int64)
        np.add.at(counts, (which, phase.steps.stage[counted]), 1)
        placed = [
            self._traffic.in_stages(of_class.rectangles, int(phase.steps.stage[step]), times)
            for step, of_class, times in zip(kinds.tolist(), moved, counts, strict=True)
            if len(of_class.rectangles)
        ]
        return totals, np.concatenate([NOTHING, *placed])
