"""Cost of routed steps: steps whose work and words depend on the experts that tokens are routed to.

Each column of PEs stores some experts of a layer. It processes the (token, expert) pairs of its own
experts, and sends words for each pair. The phase waits for the column with the most pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_columns import ASSUMED, ExpertTokens, pairs_by_column
from wse.backends.fabric.line.line_time import LineTime
from wse.backends.fabric.links.link_map import NOTHING
from wse.backends.fabric.links.traffic import NO_TRAFFIC, StepTraffic, Traffic
from wse.backends.fabric.phase_cost import PhaseCost, PhaseTraffic
from wse.backends.fabric.step_cost import StepCosts
from wse.program.program import Program
from wse.program.steps import Phase, Slots, Steps
from wse.program.transfers.transfer import WaferPair
from wse.program.transfers.transfer_types import TRANSFERS, transfer_of, transfer_steps


class _RoutedClass(NamedTuple):
    """Steps of equal cost and traffic whose work depends on the experts that tokens are routed to.

    Cost and traffic are for one routing: a given number of tokens for each expert.

    Attributes:
        cost: Time of each step.
        crossings: (sending, receiving) wafer pairs of each step; None if its words stay on a wafer.
        steps: int64 ``[n]``, indices of the steps.
        count_traffic: Function that computes the traffic of one of the steps.
    """

    cost: LineTime
    crossings: tuple[WaferPair, ...] | None
    steps: I64
    count_traffic: Callable[[], StepTraffic]


class _RoutedTraffic(NamedTuple):
    """Traffic of all routed steps of a phase: the words, and the links that carry them.

    A routed step is a step whose work depends on which experts the tokens are routed to.

    Attributes:
        by_step: int64 ``[3, steps]``: words, hops and bytes of each step of the phase; 0 for steps
            that are not routed.
        rectangles: int64 ``[n, 9]``, links and their words (see ``link_map.rectangles_of``).
    """

    by_step: I64
    rectangles: I64


class _RoutedSteps(NamedTuple):
    """Routed steps of a phase (steps whose work depends on the experts), for one expert selection.

    Attributes:
        classes: The steps, grouped into classes with equal cost and traffic.
        count_traffic: Function that computes the traffic of all these steps.
    """

    classes: list[_RoutedClass]
    count_traffic: Callable[[], _RoutedTraffic]


class RoutedCosts:
    """Cost model for steps whose work depends on the experts to which tokens are routed.

    For such a *routed step*, it returns cycles and traffic for a given routing or for the assumed
    ``Program.routing``.
    """

    def __init__(self, program: Program, steps: StepCosts, traffic: Traffic) -> None:
        self.program, self._steps, self._traffic = program, steps, traffic
        self._known: dict[tuple[Steps, int, int], LineTime] = {}
        self._assumed: dict[Steps, _RoutedSteps] = {}  # for the assumed routing

    def with_routed_steps(
        self, cost: PhaseCost, phase: Phase, classes: I64, slots: Slots, expert_tokens: ExpertTokens
    ) -> PhaseCost:
        """Return the cost of a phase, including its routed steps.

        A routed step is a step whose cycles depend on which experts the router selects.

        1. The routed steps are timed, once per class of equal steps. For the assumed routing, the
           result is cached. It applies to any number of cache slots because no routed step depends
           on them.
        2. Their cycles are added to the steps and delay all later steps.
        3. Their traffic is counted when ``PhaseCost.traffic`` is read for the first time.

        Args:
            cost: Cost of the phase without routed steps.
            phase: Prefill chunk, decode pass or verification pass of the Program.
            classes: int64 ``[steps]``, equal numbers for steps that differ at most in addresses.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            expert_tokens: For each layer, the number of tokens routed to each expert; empty for the
                assumed routing.
        """
        steps = phase.steps
        if not steps.depends_on_experts.any():
            return cost
        if expert_tokens:  # 1
            routed_classes, count_traffic = self._routed_steps(phase, classes, slots, expert_tokens)
        else:
            routed_classes, count_traffic = self._assumed_steps(phase, classes, slots)
        delays = np.zeros(len(steps) + 1)  # 2. a delay at index i applies to step i and all later steps
        by_cause, contention, streams = cost.by_cause.copy(), cost.contention.copy(), cost.streams.copy()
        crossings_by_step: dict[int, tuple[WaferPair, ...]] = {}
        for time, crossings, class_steps, _ in routed_classes:
            delays[class_steps + 1] = time.cycles.total
            by_cause[class_steps] += time.cycles[1:]
            contention[class_steps], streams[class_steps] = time.contention_cycles, time.streams
            if crossings is not None:
                crossings_by_step |= dict.fromkeys(class_steps.tolist(), crossings)
        return replace(
            cost,
            start=cost.start + delays[:-1].cumsum(),
            by_cause=by_cause,
            used_crossings=crossings_by_step,
            contention=contention,
            streams=streams,
            count_traffic=partial(  # 3
                _with_routed_traffic, (lambda: cost.traffic) if expert_tokens else cost.count_traffic, count_traffic
            ),
        )

    def assumed_links(self, phase: Phase, classes: I64, slots: Slots) -> I64:
        """Return the links, with their words, that the routed steps of one run of a phase use.

        A routed step is a step whose work depends on the experts to which tokens are routed. The
        routing is ``Program.routing``. The arguments are the same as for `with_routed_steps`.

        Returns:
            int64 ``[n, 9]``, links and their words (see ``link_map.rectangles_of``).
        """
        return self._assumed_steps(phase, classes, slots).count_traffic().rectangles

    def _assumed_steps(self, phase: Phase, classes: I64, slots: Slots) -> _RoutedSteps:
        """Return the routed steps of a phase for the routing ``Program.routing``, from a cache.

        A routed step is a step whose work depends on the experts to which tokens are routed. The
        arguments are the same as for `with_routed_steps`.
        """
        if phase.steps not in self._assumed:
            self._assumed[phase.steps] = self._routed_steps(phase, classes, slots, ASSUMED)
        return self._assumed[phase.steps]

    def _routed_steps(self, phase: Phase, classes: I64, slots: Slots, expert_tokens: ExpertTokens) -> _RoutedSteps:
        """Return the classes of a phase's routed steps, and a function that counts their traffic.

        A routed step is a step whose work depends on the experts to which tokens are routed. The
        steps of a class have the same cost and traffic.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            classes: int64 ``[steps]``, equal numbers for steps that differ at most in addresses.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            expert_tokens: For each layer, the number of tokens routed to each expert.
        """
        routed_classes = self._classes(phase, classes, slots, expert_tokens)
        return _RoutedSteps(routed_classes, cache(partial(_count_traffic, self._traffic, phase, routed_classes)))

    def _classes(self, phase: Phase, classes: I64, slots: Slots, expert_tokens: ExpertTokens) -> list[_RoutedClass]:
        """Group steps that depend on the selected experts into classes of equal cost and traffic.

        Two steps are in the same class if the following are equal:

        1. Their numbers in ``classes``, which differ for steps that differ in more than addresses.
        2. Their layer. If the assumed routing is even, all layers that are missing in
           ``expert_tokens`` count as one.
        3. The assignment of experts to columns in their stage. If the cost depends on positions
           (steps between wafers, or any step if PEs are dead), the stage itself must be equal.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            classes: int64 ``[steps]``, equal numbers for steps that differ at most in addresses.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            expert_tokens: For each layer, the number of tokens routed to each expert.
        """
        steps, program = np.flatnonzero(phase.steps.depends_on_experts), self.program
        layer, stage = np.array(program.op_layers)[phase.steps.op[steps]], phase.steps.stage[steps]
        if program.routing.is_even:
            layer = np.where(np.isin(layer, list(expert_tokens)), layer, -1)
        mixture_numbers = np.array([program.mixtures.index(mixture) for mixture in program.mixtures])[stage]
        by_place = transfer_steps(phase.steps, lambda kind: kind.leaves_wafer)[steps]
        stage_key = np.where(by_place | (not self._steps.on_whole_wafers), stage, mixture_numbers)
        keys = np.stack([classes[steps], layer, stage_key], axis=1)
        _, first, class_of_step = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        by_columns: dict[tuple[int, int], I64] = {}
        routed_classes = []
        for number, at in enumerate(first.tolist()):
            step, layer_and_mixture = int(steps[at]), (int(layer[at]), int(mixture_numbers[at]))
            if layer_and_mixture not in by_columns:
                by_columns[layer_and_mixture] = pairs_by_column(program, phase, step, expert_tokens)
            members = steps[class_of_step == number]
            routed_classes.append(self._class(phase, members, int(classes[step]), slots, by_columns[layer_and_mixture]))
        return routed_classes

    def _class(self, phase: Phase, steps: I64, step_class: int, slots: Slots, columns: I64) -> _RoutedClass:
        """Return the time and traffic of one class of routed steps, computed from its first step.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            steps: int64 ``[n]``, indices of the steps.
            step_class: Number of the class, under which its times are cached.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            columns: int64 ``[cols]``, (token, expert) pairs on each column of PEs.
        """
        step = int(steps[0])
        moves = not phase.steps.computes(step)
        if moves and TRANSFERS[phase.steps.code[step]].leaves_wafer:
            chosen_wafers = self.program.chosen_wafers(int(phase.steps.stage[step]), columns)
            crossings = transfer_of(self.program, phase, step, slots, chosen_wafers=chosen_wafers).crossings
            cost = self._crossing_cost(phase, step, step_class, slots, chosen_wafers, len(crossings))
            traffic = cache(partial(self._traffic.step_traffic, phase, step, slots, chosen_wafers))
            return _RoutedClass(cost, crossings, steps, traffic)
        max_pairs = max(1, int(columns.max()))  # the maximum is 0 only if logits were NaN and no expert was chosen
        cost = self._cost(phase, step, step_class, slots, max_pairs)
        if not moves:
            return _RoutedClass(cost, None, steps, lambda: NO_TRAFFIC)
        return _RoutedClass(
            cost, None, steps, cache(partial(self._traffic.traffic_by_pairs, phase, step, slots, columns))
        )

    def _crossing_cost(
        self, phase: Phase, step: int, step_class: int, slots: Slots, chosen_wafers: frozenset[int], crossings: int
    ) -> LineTime:
        """Return the time of one step that sends words between wafers.

        The time depends only on the class of the step and on the number of crossings (pairs of
        wafers that exchange words), and is cached for each combination of them.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            step_class: Number of the step's class of equivalent steps.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            chosen_wafers: Wafers that store selected experts.
            crossings: Number of crossings.
        """
        key = (phase.steps, step_class, -1 - crossings)
        if key not in self._known:
            self._known[key] = self._steps.time(phase, step, slots, 0, chosen_wafers)
        return self._known[key]

    def _cost(self, phase: Phase, step: int, step_class: int, slots: Slots, pairs: int) -> LineTime:
        """Return the time of a step whose busiest column has ``pairs`` (token, expert) pairs.

        Results are cached by the class of the step and by ``pairs``.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            step_class: Number of the step's class of equivalent steps.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            pairs: Number of pairs on the busiest column of PEs.
        """
        key = (phase.steps, step_class, pairs)
        if key not in self._known:
            self._known[key] = self._steps.time(phase.with_pairs(step, pairs), 0, slots, 0)
        return self._known[key]


def _count_traffic(traffic: Traffic, phase: Phase, classes: Sequence[_RoutedClass]) -> _RoutedTraffic:
    """Return the traffic of all routed steps of a phase.

    Args:
        traffic: Counter of the traffic of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        classes: Groups of routed steps with equal traffic. The traffic of a group is that of one
            step, times the number of steps.
    """
    by_step, links = np.zeros((3, len(phase.steps)), np.int64), [NOTHING]
    for routed_class in classes:
        step_traffic, steps = routed_class.count_traffic(), routed_class.steps
        by_step[:, steps] = np.array([[step_traffic.words], [step_traffic.hops], [step_traffic.bytes]])
        counts = np.bincount(phase.steps.stage[steps], minlength=len(traffic.program.stages))
        links.append(traffic.in_stages(step_traffic.rectangles, int(phase.steps.stage[steps[0]]), counts))
    return _RoutedTraffic(by_step, np.concatenate(links))


def _with_routed_traffic(
    count_others: Callable[[], PhaseTraffic], count_routed: Callable[[], _RoutedTraffic]
) -> PhaseTraffic:
    """Return the traffic of a phase, including the steps that depend on the selected experts.

    Args:
        count_others: Function that computes the traffic of all other steps.
        count_routed: Function that computes the traffic of the steps that depend on the selected
            experts.
    """
    traffic, (by_step, rectangles) = count_others(), count_routed()
    words, hops, payload = by_step
    return replace(
        traffic,
        words=traffic.words + words,
        hops=traffic.hops + hops,
        bytes=traffic.bytes + payload,
        shifts=np.concatenate([traffic.shifts, rectangles]) if len(traffic.shifts) else rectangles,
    )
