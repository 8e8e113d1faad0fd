"""Fabric: the fast timing model of one Program, which returns the cost of each phase.

A phase is one prefill chunk, one decode pass or one verification pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.expert_columns import ASSUMED, ExpertTokens
from wse.backends.fabric.expert_costs import RoutedCosts
from wse.backends.fabric.group_cost import GroupCosts, origins, starts
from wse.backends.fabric.links.routes import Routes
from wse.backends.fabric.links.traffic import Traffic
from wse.backends.fabric.phase_cost import CacheUse, CostClass, PhaseCost, PhaseTraffic, TokenClass
from wse.backends.fabric.step_cost import StepCosts
from wse.backends.fabric.traffic_counts import TrafficCounts
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse.program.transfers.transfer_types import by_counters
from wse_mappings.mesh.logical_mesh import LogicalMesh


class Fabric:
    """Fast timing model of a Program (a compiled model) on one wafer type and software profile.

    Costs are cached, so a pass that costs the same as an earlier pass is not timed again.

    Args:
        program: The Program, compiled for a complete mesh of PEs.
        wafer: Wafer type.
        software: Costs of the software on the wafer.
        meshes: For each wafer, the positions of its live PEs; empty if no PE or link is dead.
    """

    def __init__(
        self, program: Program, wafer: WaferSpec, software: SoftwareProfile, meshes: Sequence[LogicalMesh] = ()
    ) -> None:
        self.program = program
        self.routes = Routes(program, meshes)
        self.traffic = Traffic(program, self.routes)
        self._counts = TrafficCounts(program, self.routes, self.traffic)
        self._slots, self._origins = cache(program.cache_slots), cache(origins)
        self._set_costs(wafer, software, None)

    def with_costs(self, wafer: WaferSpec, software: SoftwareProfile) -> Fabric:
        """Return a timing model of the same Program for other hardware and software costs.

        The new model reuses routes, traffic and classes of equivalent steps, which do not depend on
        the costs. Its cycle counts are not cached for other Programs of the process.

        Args:
            wafer: Wafer type with other costs, but with a mesh of the same shape.
            software: Software profile with other costs.
        """
        fabric = copy(self)
        fabric._set_costs(wafer, software, self._groups)
        return fabric

    def _set_costs(self, wafer: WaferSpec, software: SoftwareProfile, groups: GroupCosts | None) -> None:
        """Set the costs of the wafer and its software, and empty all caches of cycles.

        Args:
            wafer: Wafer type.
            software: Costs of the software on the wafer.
            groups: Costs of groups of concurrent steps, from which the classes of equivalent groups
                are reused; None to compute the classes.
        """
        self.wafer, self.software = wafer, software
        self._steps = StepCosts(self.program, wafer, software, self.traffic)
        self._groups = GroupCosts(self._steps) if groups is None else groups.with_costs(self._steps)
        self._routed = RoutedCosts(self.program, self._steps, self.traffic)
        self._without_experts: dict[CostClass, PhaseCost] = {}  # without shifts and routed steps
        self._assumed: dict[CostClass, PhaseCost] = {}  # with routed steps, for the assumed routing

    def prefill_cost(self, index: int, expert_tokens: ExpertTokens = ASSUMED) -> PhaseCost:
        """Return the cost of a prefill chunk.

        Args:
            index: Index of the chunk in ``Program.phases``.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.
        """
        phase = self.program.phases[index]
        return self._cost(index, self._slots(phase.cached + phase.tokens), (), expert_tokens)

    def decode_cost(self, *lengths: int, expert_tokens: ExpertTokens = ASSUMED) -> PhaseCost:
        """Return the cost of a decode pass, which generates one token for each user.

        Args:
            lengths: Number of tokens in each user's cache before the pass.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.
        """
        return self._cost(self.program.decode_index, *self.cache_use(lengths), expert_tokens)

    def verify_cost(self, length: int, expert_tokens: ExpertTokens = ASSUMED) -> PhaseCost:
        """Return the cost of a verification pass over several new tokens of one user.

        Args:
            length: Number of tokens in the user's cache before the pass.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.
        """
        return self._cost(self.program.phases.index(self.program.verify[0]), *self.verify_use(length), expert_tokens)

    def verify_use(self, length: int) -> CacheUse:
        """Return a key that determines the cost of a verification pass.

        Passes with equal keys cost the same if the selection of experts is not recorded.

        Args:
            length: Number of tokens in the user's cache before the pass.

        Returns:
            A pair, as for decode passes (`cache_use`). The first item is the number of cached
            tokens on the fullest row of PEs of each stage (group of layers). The second item is an
            empty tuple.
        """
        return self._slots(length + self.program.verify_tokens), ()

    def decode_costs(self, lengths: Sequence[int], tokens: int) -> list[TokenClass]:
        """Return the costs of consecutive decode passes, grouped into classes with the same cost.

        Tokens are assumed to select experts as in ``Program.routing``.

        Args:
            lengths: Number of tokens in each user's cache before the first pass.
            tokens: Number of passes, that is, of new tokens per user.
        """
        lengths_by_slots: dict[Slots, list[int]] = {}
        tokens_by_slots: Counter[Slots] = Counter()
        for token in range(tokens):
            slots, lengths_now = self.cache_use([length + token for length in lengths])
            lengths_by_slots.setdefault(slots, []).extend(lengths_now)
            tokens_by_slots[slots] += 1
        index = self.program.decode_index
        return [
            TokenClass(
                tokens=tokens_by_slots[slots],
                slots=slots,
                lengths=all_lengths,
                cost=self._cost(index, slots, (), ASSUMED),
            )
            for slots, all_lengths in lengths_by_slots.items()
        ]

    def shift_traffic(self, token_class: TokenClass) -> tuple[I64, I64]:
        """Return the traffic of the cache shifts of all passes in a class.

        A cache shift moves a user's cache entries to the row of PEs above.

        Returns:
            Words, hops and bytes of each step, int64 ``[3, steps]``, and the links that carry the
            words, as rectangles of links with equal word counts.
        """
        phase = self.program.decode
        return self._counts.shifts(phase, by_counters(phase.steps), token_class.slots, token_class.lengths)

    def busiest_routed_link_words(self, index: int) -> int:
        """Return the words on the busiest link in one run of a phase, for routed steps only.

        A routed step is a step whose work depends on the experts to which tokens are routed. The
        routing is ``Program.routing``.

        Args:
            index: Index of the phase in ``Program.phases``.
        """
        phase = self.program.phases[index]
        classes = self._counts.shape_classes(phase.steps)
        rectangles = self._routed.assumed_links(phase, classes, self.program.cache_slots(0))
        return max((link.words for link in self.routes.busiest_links(rectangles)), default=0)

    def cache_use(self, lengths: Sequence[int]) -> CacheUse:
        """Return a key that determines the cost and traffic of a decode pass.

        Passes with equal keys cost the same if the selection of experts is not recorded.

        Args:
            lengths: Number of tokens in each user's cache before the pass.

        Returns:
            A pair. The first item is the maximum number of cached tokens that any user has on one
            row of PEs, for each stage (group of layers). The second item is ``lengths``.
        """
        return self._slots(max(lengths) + 1), tuple(lengths)

    def classes(self, phase: Phase) -> I64:
        """Group equivalent steps: return, for each step, the index of the first equivalent step.

        Equivalent steps have the same cost and traffic.

        Returns:
            int64 ``[steps]``.
        """
        return self._counts.classes(phase.steps)

    def _cost(self, index: int, slots: Slots, lengths: tuple[int, ...], expert_tokens: ExpertTokens) -> PhaseCost:
        """Return the cost of one run of a phase.

        Args:
            index: Index of the phase in ``Program.phases``.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            lengths: Number of tokens in each user's cache before a decode pass; empty for other
                phases.
            expert_tokens: For each layer, the number of tokens routed to each expert.
        """
        phase = self.program.phases[index]
        key = CostClass(phase.steps, phase.begins, slots)
        if not expert_tokens and key in self._assumed:
            return self._with_shift(self._assumed[key], phase, slots, lengths)
        cost_without_experts = self._without_experts.get(key) or self._evaluate(phase, slots)
        classes = self._counts.shape_classes(phase.steps)
        cost = self._routed.with_routed_steps(cost_without_experts, phase, classes, slots, expert_tokens)
        if expert_tokens:  # other runs with the same cache use may choose other experts
            self._without_experts[key] = cost_without_experts
        else:
            self._assumed[key] = cost
        return self._with_shift(cost, phase, slots, lengths)

    def _with_shift(self, cost: PhaseCost, phase: Phase, slots: Slots, lengths: tuple[int, ...]) -> PhaseCost:
        """Return a cost that also includes the traffic of cache shifts.

        A cache shift moves KV-cache entries to the row of PEs above. The number of rows that send
        entries depends on the tokens in each user's cache. Passes with equal cycles can therefore
        differ in this traffic, which is counted only on request.

        Args:
            cost: Cost of the phase without the traffic of cache shifts.
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            lengths: Number of tokens in each user's cache.
        """
        if not lengths or not len(by_counters(phase.steps)):
            return cost
        return replace(cost, count_traffic=partial(self._traffic_with_shift, cost, phase, slots, lengths))

    def _traffic_with_shift(
        self, cost: PhaseCost, phase: Phase, slots: Slots, lengths: tuple[int, ...]
    ) -> PhaseTraffic:
        """Return the traffic of a phase, including its cache shifts.

        A cache shift moves a user's cache entries to the row of PEs above.

        Args:
            cost: Cost of the phase, with traffic that excludes cache shifts.
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            lengths: Number of tokens in each user's cache.
        """
        traffic, steps = cost.traffic, by_counters(phase.steps)
        (words, hops, _), rectangles = self._counts.shifts(phase, steps, slots, lengths)
        shifts = np.concatenate([traffic.shifts, rectangles])
        return replace(traffic, words=traffic.words + words, hops=traffic.hops + hops, shifts=shifts)

    def _evaluate(self, phase: Phase, slots: Slots) -> PhaseCost:
        """Compute the cost of a phase without routed steps and without the traffic of cache shifts.

        Both are added later. A routed step is a step whose work depends on the experts to which
        tokens are routed (see ``expert_costs``).
        """
        classes = self._counts.shape_classes(phase.steps)
        cost = self._groups.of(phase, slots, classes)
        cost.by_cause[:, CAUSES.index("launch")] += phase.steps.route_rewrites * self.software.route_rewrite_cycles
        return PhaseCost(
            cost_class=CostClass(phase.steps, phase.begins, slots),
            start=starts(*self._origins(phase.steps), cost),
            by_cause=cost.by_cause,
            used_crossings={},
            contention=cost.contention,
            streams=cost.streams,
            routes=self.routes,
            count_traffic=partial(self._counts.of, phase, slots),
        )

    def shape_classes(self, phase: Phase) -> I64:
        """Group steps of equal cost: return, for each step, the index of the first such step.

        Unlike in `classes`, two steps count as equal if the regions of their stages have the same
        shape, wherever they are. If the assumed routing is uneven, every step that depends on it is
        a class of its own.

        Returns:
            int64 ``[steps]``.
        """
        classes = self._counts.shape_classes(phase.steps)
        if self.program.routing.is_even:
            return classes
        return np.where(phase.steps.depends_on_experts, np.arange(len(classes)), classes)
