"""Cycle count of an overlap group (concurrent steps), over all iterations of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.step_cost import StepCosts
from wse.program.steps import Phase, Slots


class GroupCost(NamedTuple):
    """Cycles that groups of concurrent steps (overlap groups) add to their phase, by step.

    Each array has one row per step.

    Attributes:
        by_cause: float64 ``[steps, causes]``, cycles that each step adds to the phase, over all
            iterations of its loop.
        contention: float64 ``[steps]``, cycles in which words of a step waited for words of another
            message.
        streams: int64 ``[steps]``, maximum number of messages that shared a link or ramp.
        first_iteration: float64 ``[steps]``, cycle count of a group's first iteration in the row of
            its first step; 0 in its other rows.
    """

    by_cause: F64
    contention: F64
    streams: I64
    first_iteration: F64


def zero_cost(steps: int) -> GroupCost:
    """Return a cost of zero cycles for an overlap group with the given number of steps."""
    return GroupCost(np.zeros((steps, len(CAUSES))), np.zeros(steps), np.ones(steps, np.int64), np.zeros(steps))


def group_time(costs: StepCosts, phase: Phase, group: Sequence[int], slots: Slots) -> GroupCost:
    """Compute the cost of one overlap group, over all iterations of its loop.

    The steps of an overlap group run concurrently, except for a chain of steps that run one after
    another.

    1. The transfers outside the chain start together and take as long as the slowest one.
    2. The kernels and transfers of the chain run sequentially, alongside the other transfers.
    3. The slower of these two activities is critical. Its cycles are assigned to its steps; the
       other steps cost nothing.
    4. The first critical step also gets the cycles needed to start and await the group.

    Args:
        costs: Cycle counts of individual steps.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        group: Indices of the steps of the group.
        slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
    """
    cost = zero_cost(len(group))
    chain = [i for i, step in enumerate(group) if phase.steps.computes(step) or phase.steps.in_chain[step]]
    transfers = [i for i in range(len(group)) if i not in chain]
    moving = [i for i in transfers if costs.moves(phase, group[i])] if len(group) > 1 else []
    for iteration, repeat in costs.distinct_iterations(phase, group, phase.steps.iterations(group[0])):
        times = [costs.time(phase, step, slots, iteration) for step in group]
        critical_times = {}
        if transfers:  # 1
            slowest_transfer = max(transfers, key=lambda i: times[i].cycles)
            time = times[slowest_transfer]
            if moving:
                overlap = costs.overlap_time(phase, [group[i] for i in moving], slots, iteration)
                if overlap.cycles > time.cycles:
                    slowest_transfer, time = max(moving, key=lambda i: times[i].cycles), overlap
                elif slowest_transfer in moving:
                    time = replace(overlap, cycles=time.cycles)
            critical_times = {slowest_transfer: time}
        cycles_of_chain = sum(times[i].cycles.total for i in chain)  # 2
        if chain and cycles_of_chain >= sum(time.cycles.total for time in critical_times.values()):  # 3
            critical_times = {i: times[i] for i in chain}
        first = min(critical_times)
        if phase.steps.overlap[group[0]] >= 0:  # 4
            critical_times[first] = replace(
                critical_times[first], cycles=critical_times[first].cycles.plus(launch=costs.sync)
            )
        for i, time in critical_times.items():
            cost.contention[i] += time.contention_cycles * repeat
            cost.streams[i] = max(cost.streams[i], time.streams)
            cost.by_cause[i] += time.cycles.times(repeat)[1:]
        if iteration == 0:
            cost.first_iteration[0] = sum(time.cycles.total for time in critical_times.values())
    return cost
