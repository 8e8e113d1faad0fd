"""Traffic of a phase, counted once for each class of equivalent steps."""

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
from wse.program.program import Program
from wse.program.steps import Phase, Slots, Steps


class TrafficCounts:
    """Traffic model for whole phases of a Program: words, hops and bytes of each step.

    The traffic of equivalent steps is computed once. Steps whose work depends on the selected
    experts are not counted here (see ``expert_costs``).

    Attributes:
        classes: Function that groups equivalent steps of the same stage: it returns, for each step
            of a phase, the index of the first equivalent step.
        shape_classes: Like ``classes``, but steps of different stages are also equivalent if the
            regions of the stages have the same shape.
    """

    def __init__(self, program: Program, routes: Routes, traffic: Traffic) -> None:
        self._program, self._routes, self._traffic = program, routes, traffic
        places = np.array([(stage.wafer, *stage.rect, stage.span) for stage in program.stages], np.int64)
        self.classes = cache(step_classes)
        self.shape_classes = cache(partial(step_classes, places=places, is_whole=routes.has_no_faults))
        self._of_any_slots: dict[Steps, tuple[I64, I64]] = {}  # traffic that does not depend on cache slots

    def of(self, phase: Phase, slots: Slots) -> PhaseTraffic:
        """Return the traffic of one run of a phase.

        Cache shifts and steps that depend on the selected experts are not included.
        """
        grows, is_independent = by_slots(phase.steps), ~phase.steps.depends_on_experts
        moved_by = partial(self._traffic.step_traffic, phase, slots=slots)
        if phase.steps not in self._of_any_slots:
            self._of_any_slots[phase.steps] = self._traffic_of(phase, np.flatnonzero(~grows & is_independent), moved_by)
        fixed, rectangles = self._of_any_slots[phase.steps]
        growing, slot_rectangles = self._traffic_of(phase, np.flatnonzero(grows & is_independent), moved_by)
        words, hops, payload = fixed + growing
        return PhaseTraffic(
            words=words, hops=hops, bytes=payload, rectangles=rectangles, by_slots=slot_rectangles, shifts=NOTHING
        )

    def shifts(self, phase: Phase, steps: I64, slots: Slots, lengths: Sequence[int]) -> tuple[I64, I64]:
        """Return the traffic of cache shifts, in which cache entries move to the row of PEs above.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            steps: Indices of the steps that shift caches.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            lengths: Number of tokens in each user's cache, for every pass.

        Returns:
            Words, hops and bytes, int64 ``[3, steps]``, and the links that carry the words, as
            rectangles of links with equal word counts.
        """
        return self._traffic_of(phase, steps, lambda step: self._traffic.shift_traffic(phase, step, slots, lengths))

    def _traffic_of(self, phase: Phase, counted_steps: I64, moved_by: Callable[[int], StepTraffic]) -> tuple[I64, I64]:
        """Return the traffic of the given steps, computing equivalent steps only once.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            counted_steps: int64 ``[n]``, indices of the steps to count.
            moved_by: Function that returns the traffic of a step.

        Returns:
            Words, hops and bytes, int64 ``[3, steps]`` with 0 for other steps, and the links that
            carry the words, as rectangles of links with equal word counts.
        """
        classes = self.shape_classes(phase.steps) if self._routes.has_no_faults else self.classes(phase.steps)
        kinds, class_of_step = np.unique(classes[counted_steps], return_inverse=True)
        class_traffic = [moved_by(step) for step in kinds.tolist()]
        totals = np.zeros((3, len(phase.steps)), np.int64)
        totals[:, counted_steps] = (
            np.array([(m.words, m.hops, m.bytes) for m in class_traffic], np.int64).reshape(-1, 3)[class_of_step].T
        )
        counts = np.zeros((len(kinds), len(self._program.stages)), np.int64)
        np.add.at(counts, (class_of_step, phase.steps.stage[counted_steps]), 1)
        stage_rectangles = [
            self._traffic.in_stages(step_traffic.rectangles, int(phase.steps.stage[step]), times)
            for step, step_traffic, times in zip(kinds.tolist(), class_traffic, counts, strict=True)
            if len(step_traffic.rectangles)
        ]
        return totals, np.concatenate([NOTHING, *stage_rectangles])
