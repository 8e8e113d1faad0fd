"""Steps whose work and words depend on which experts tokens chose: what they add to the cost of a phase.

A column works on the pairs of tokens and experts that it holds and sends as many words; the phase waits for the column
that has most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.line.line_time import LineTime
from wse.backends.fabric.links.link_map import NOTHING
from wse.backends.fabric.links.traffic import NO_TRAFFIC, StepTraffic, Traffic
from wse.backends.fabric.phase_cost import PhaseCost, PhaseTraffic
from wse.backends.fabric.step_cost import StepCosts
from wse.program.isa.instructions import KERNELS
from wse.program.isa.kernel import Kernel
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots, Steps
from wse.program.transfers.kinds import TRANSFERS, transfer_of, transfer_steps
from wse.program.transfers.transfer import WaferPair

Pairs = Mapping[int, I64]
"""Tokens of a run of a phase that chose each expert, int64 ``[experts]``, by layer."""

EVEN: Final[Pairs] = {}
"""Layers that are missing are taken to choose as evenly as they can."""


class _RoutedClass(NamedTuple):
    """A class of equal steps for one choice of experts: the cost of each, and the wafers between which it sends.

    ``steps`` int64 ``[n]`` are those of it; ``count_traffic`` counts the traffic of the first.
    """

    cost: LineTime
    crossings: tuple[WaferPair, ...] | None
    steps: I64
    count_traffic: Callable[[], StepTraffic]


class _RoutedTraffic(NamedTuple):
    """The traffic of all steps that depend on the choice: words, hops and bytes by step, int64 ``[3, steps]``."""

    by_step: I64
    rectangles: I64


class _RoutedSteps(NamedTuple):
    """The classes of all steps of a phase that depend on the choice, for one choice of experts."""

    classes: list[_RoutedClass]
    count_traffic: Callable[[], _RoutedTraffic]


class RoutedCosts:
    """Adds the steps that depend on the choice of experts to the cost of a phase, with a cache."""

    def __init__(self, program: Program, steps: StepCosts, traffic: Traffic) -> None:
        self.program, self._steps, self._traffic = program, steps, traffic
        self._known: dict[tuple[Steps, int, int], LineTime] = {}
        self._even: dict[Steps, _RoutedSteps] = {}  # where tokens choose evenly

    def with_routed_steps(self, cost: PhaseCost, phase: Phase, classes: I64, slots: Slots, pairs: Pairs) -> PhaseCost:
        """Return ``cost`` with the steps that depend on the choice, for tokens that chose experts according to
        ``pairs``.

        None of them depends on cache slots.
        """
        steps = phase.steps
        if not steps.routed.any():
            return cost
        if pairs:
            of_classes, moved = self._routed_steps(phase, classes, slots, pairs)
        else:
            if steps not in self._even:
                self._even[steps] = self._routed_steps(phase, classes, slots, pairs)
            of_classes, moved = self._even[steps]
        later = np.zeros(len(steps) + 1)  # by how much a step and all after it start later
        by_cause, contention, streams = cost.by_cause.copy(), cost.contention.copy(), cost.streams.copy()
        crossed: dict[int, tuple[WaferPair, ...]] = {}
        for time, crossings, of_class, _ in of_classes:
            later[of_class + 1] = time.cycles.total
            by_cause[of_class] += time.cycles[1:]
            contention[of_class], streams[of_class] = time.contention_cycles, time.streams
            if crossings is not None:
                crossed |= dict.fromkeys(of_class.tolist(), crossings)
        return replace(
            cost,
            start=cost.start + later[:-1].cumsum(),
            by_cause=by_cause,
            crossed=crossed,
            contention=contention,
            streams=streams,
            count_traffic=partial(_with_routed_traffic, (lambda: cost.traffic) if pairs else cost.count_traffic, moved),
        )

    def _routed_steps(self, phase: Phase, classes: I64, slots: Slots, pairs: Pairs) -> _RoutedSteps:
        """Return the steps of a phase that depend on the choice, for a given choice ``pairs``."""
        of_classes = self._classes(phase, classes, slots, pairs)
        return _RoutedSteps(of_classes, cache(partial(_count_traffic, self._traffic, phase, of_classes)))

    def _classes(self, phase: Phase, classes: I64, slots: Slots, pairs: Pairs) -> list[_RoutedClass]:
        """Return these steps grouped by the ``classes`` of steps, by the layer of the choice, and by stage.

        Layers that are missing in ``pairs`` are one, and so are stages with the same columns of experts. What goes by
        where stages stand, as steps between wafers and all steps where PEs are dead, is of one stage.
        """
        steps, program = np.flatnonzero(phase.steps.routed), self.program
        layer, stage = np.array(program.op_layers)[phase.steps.op[steps]], phase.steps.stage[steps]
        layer = np.where(np.isin(layer, list(pairs)), layer, -1)
        mixture_numbers = np.array([program.mixtures.index(mixture) for mixture in program.mixtures])[stage]
        by_place = transfer_steps(phase.steps, lambda kind: kind.leaves_wafer)[steps]
        of_stage = np.where(by_place | (not self._steps.on_whole_wafers), stage, mixture_numbers)
        keys = np.stack([classes[steps], layer, of_stage], axis=1)
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        by_columns: dict[tuple[int, int], I64] = {}
        of_classes = []
        for number, at in enumerate(first.tolist()):
            step, of_layer = int(steps[at]), (int(layer[at]), int(mixture_numbers[at]))
            if of_layer not in by_columns:
                by_columns[of_layer] = by_column(program, phase, step, pairs)
            members = steps[which == number]
            of_classes.append(self._class(phase, members, int(classes[step]), slots, by_columns[of_layer]))
        return of_classes

    def _class(self, phase: Phase, steps: I64, step_class: int, slots: Slots, columns: I64) -> _RoutedClass:
        """Return the work and traffic of the steps of a class, for given pairs on each column."""
        step = int(steps[0])
        moves = not phase.steps.computes(step)
        if moves and TRANSFERS[phase.steps.code[step]].leaves_wafer:
            chosen = self.program.chosen_wafers(int(phase.steps.stage[step]), columns)
            crossings = transfer_of(self.program, phase, step, slots, chosen_wafers=chosen).crossings
            cost = self._crossing_cost(phase, step, step_class, slots, chosen, len(crossings))
            traffic = cache(partial(self._traffic.step_traffic, phase, step, slots, chosen))
            return _RoutedClass(cost, crossings, steps, traffic)
        most = max(1, int(columns.max()))  # none only where logits were not numbers and nothing was chosen
        cost = self._cost(phase, step, step_class, slots, most)
        if not moves:
            return _RoutedClass(cost, None, steps, lambda: NO_TRAFFIC)
        return _RoutedClass(
            cost, None, steps, cache(partial(self._traffic.traffic_by_pairs, phase, step, slots, columns))
        )

    def _crossing_cost(
        self, phase: Phase, step: int, step_class: int, slots: Slots, chosen: frozenset[int], crossings: int
    ) -> LineTime:
        """Return the time of a step between wafers, which depends on the number of crossings."""
        key = (phase.steps, step_class, -1 - crossings)
        if key not in self._known:
            self._known[key] = self._steps.time(phase, step, slots, 0, chosen)
        return self._known[key]

    def _cost(self, phase: Phase, step: int, step_class: int, slots: Slots, pairs: int) -> LineTime:
        """Return the time of a step for the pairs of its fullest column."""
        key = (phase.steps, step_class, pairs)
        if key not in self._known:
            self._known[key] = self._steps.time(phase.of_pairs(step, pairs), 0, slots, 0)
        return self._known[key]


def _count_traffic(traffic: Traffic, phase: Phase, classes: Sequence[_RoutedClass]) -> _RoutedTraffic:
    """Return the traffic of the steps of a phase that depend on the choice."""
    by_step, links = np.zeros((3, len(phase.steps)), np.int64), [NOTHING]
    for of_class in classes:
        moved, steps = of_class.count_traffic(), of_class.steps
        by_step[:, steps] = np.array([[moved.words], [moved.hops], [moved.bytes]])
        counts = np.bincount(phase.steps.stage[steps], minlength=len(traffic.program.stages))
        links.append(traffic.in_stages(moved.rectangles, int(phase.steps.stage[steps[0]]), counts))
    return _RoutedTraffic(by_step, np.concatenate(links))


def _with_routed_traffic(
    count_others: Callable[[], PhaseTraffic], count_routed: Callable[[], _RoutedTraffic]
) -> PhaseTraffic:
    """Return the traffic of a phase including the steps that depend on the choice."""
    traffic, (by_step, rectangles) = count_others(), count_routed()
    words, hops, payload = by_step
    return replace(
        traffic,
        words=traffic.words + words,
        hops=traffic.hops + hops,
        bytes=traffic.bytes + payload,
        shifts=np.concatenate([traffic.shifts, rectangles]) if len(traffic.shifts) else rectangles,
    )


def by_column(program: Program, phase: Phase, step: int, pairs: Pairs) -> I64:
    """Return the pairs on each column at a step that processes pairs, int64 ``[cols]``."""
    mixture = program.mixtures[int(phase.steps.stage[step])]
    assert mixture is not None
    layer = program.op_layers[int(phase.steps.op[step])]
    return mixture.pairs_by_column(pairs[layer] if layer in pairs else mixture.even_pairs(phase.tokens))


def fullest_column_step(program: Program, phase: Phase, step: int) -> tuple[Phase, int]:
    """Return a phase and its step for the fullest column, where tokens choose as evenly as possible."""
    if not phase.steps.routed[step]:
        return phase, step
    return phase.of_pairs(step, int(by_column(program, phase, step, EVEN).max())), 0


def kernel_calls(program: Program, phase: Phase, step: int, slots: Slots) -> tuple[Kernel, list[tuple[list[int], int]]]:
    """Return the kernel of a compute step and its calls on the fullest column, with the iterations of each.

    Turns after the first cost the same.
    """
    one_step, at = fullest_column_step(program, phase, step)
    turns = phase.steps.turns(step)
    calls = [(one_step.steps.operands(at, slots), 1)]
    if turns > 1:
        calls.append((one_step.steps.operands(at, slots, 1), turns - 1))
    return KERNELS[one_step.steps.code[at]], calls
