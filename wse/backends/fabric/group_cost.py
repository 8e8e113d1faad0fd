"""Cycles of a group of steps that run at the same time, over all turns of its loop, and of all groups of a phase."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.step_classes import by_slots, contents_of
from wse.backends.fabric.step_cost import StepCosts
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.phase import Phase
from wse.program.steps import Slots, Steps
from wse.program.transfers.kinds import transfer_steps


class GroupCost(NamedTuple):
    """The cost that an overlap group adds to its phase, one row per step.

    by_cause: float64 ``[steps, causes]``, contention: float64 ``[steps]``, streams: int64 ``[steps]``, all as in
    ``phase_cost.PhaseCost``; first_turn: float64 ``[steps]``: cycles of its first turn, at its first step.
    """

    by_cause: F64
    contention: F64
    streams: I64
    first_turn: F64


MOST_GROUPS: Final = 4096
"""Groups whose costs are kept for a wafer, software and types of elements: some 2 kB each, beside their patterns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GroupClass:
    """A class of equal groups of a phase, with one of them.

    Attributes:
        group: The steps of one.
        routed: Whether its work differs from run to run.
        growing_stages: The stages of those of its steps that depend on cache slots.
        content: All that its cost depends on besides; None where that is where PEs and wafers are.
    """

    group: range
    routed: bool
    growing_stages: tuple[int, ...]
    content: Hashable


class _GroupClasses(NamedTuple):
    """The classes of the groups of a phase, and each step's row in their concatenated costs, int64 ``[steps]``."""

    classes: list[_GroupClass]
    rows: I64


class GroupCosts:
    """The costs of groups of steps, cached by class of groups and cache slots.

    Groups of steps that are of one class cost the same. Routed steps, whose work differs from run to run, cost
    nothing here. What depends on patterns and numbers alone, not by where regions stand, is known to all Programs of a
    process with the same wafer, software and types of elements.
    """

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._of_steps: dict[Steps, _GroupClasses] = {}
        self._at_first: dict[tuple[Steps, bool], GroupCost] = {}  # of all classes in turn, with some slots
        self._known: dict[tuple[_GroupClass, bool, tuple[int, ...]], GroupCost] = {}
        self._of_content = costs_by_content(costs.wafer, costs.software, costs.program.element_types)

    def of(self, phase: Phase, slots: Slots, classes: I64, first: I64) -> GroupCost:
        """Return the cost of all groups of a phase in order; ``first`` ``[groups]`` are their first steps.

        ``classes`` int64 ``[steps]`` are those of its steps, the same for all phases that share them.
        """
        if phase.steps not in self._of_steps:
            self._of_steps[phase.steps] = self._classes(phase.steps, classes, first)
        of_groups, rows = self._of_steps[phase.steps]
        place = phase.steps, phase.begins
        if place not in self._at_first:
            self._at_first[place] = _in_turn([self._of_class(phase, of_group, slots) for of_group in of_groups])
        costs, begin = _in_turn([self._at_first[place]]), 0
        for of_group in of_groups:
            end = begin + len(of_group.group)
            if of_group.growing_stages and not of_group.routed:  # the others cost the same again, routed ones nothing
                for column, own in zip(costs, self._of_class(phase, of_group, slots), strict=True):
                    column[begin:end] = own
            begin = end
        return GroupCost._make(column[rows] for column in costs)

    def _classes(self, steps: Steps, classes: I64, first: I64) -> _GroupClasses:
        """Return the classes of groups of steps, given the ``classes`` of steps."""
        numbers, patterns = classes.tolist(), self._costs.program.patterns
        keys = [tuple(numbers[begin:end]) for begin, end in pairwise([*first.tolist(), len(numbers)])]
        begins = dict(zip(keys, first.tolist(), strict=True))  # of one group of each class
        distinct = np.unique(classes)
        contents = dict(zip(distinct.tolist(), contents_of(steps, distinct), strict=True))
        grows, by_place = by_slots(steps), self._goes_by_place(steps)
        of_groups = []
        for key, begin in begins.items():
            group = range(begin, begin + len(key))
            of_pattern = tuple(patterns[i] if i >= 0 else None for i in steps.pattern[group].tolist())
            of_groups.append(
                _GroupClass(
                    group=group,
                    routed=bool(steps.routed[begin]),
                    growing_stages=tuple(steps.stage[group][grows[group]].tolist()),
                    content=None if by_place[group].any() else (tuple(contents[n] for n in key), of_pattern),
                )
            )
        lengths = np.array([len(key) for key in begins])
        row = dict(zip(begins, (lengths.cumsum() - lengths).tolist(), strict=True))  # of each class's first step
        rows = np.repeat([row[key] for key in keys] - first, np.diff(first, append=len(numbers)))
        return _GroupClasses(of_groups, rows + np.arange(len(numbers)))

    def _of_class(self, phase: Phase, of_group: _GroupClass, slots: Slots) -> GroupCost:
        """Return the cost of the groups of a class."""
        if of_group.routed:
            return _no_cost(len(of_group.group))
        in_use = tuple(slots[stage] for stage in of_group.growing_stages)
        key = (of_group, phase.begins, in_use)
        if key not in self._known:
            self._known[key] = self._of_group(phase, of_group, in_use, slots)
        return self._known[key]

    def _of_group(self, phase: Phase, of_group: _GroupClass, in_use: tuple[int, ...], slots: Slots) -> GroupCost:
        """Return the cost of a group, cached across Programs when it does not depend on the position of the group."""
        if of_group.content is None:
            return _cost(self._costs, phase, of_group.group, slots)
        key = (of_group.content, in_use)
        cost = self._of_content.get(key)
        if cost is None:
            if len(self._of_content) >= MOST_GROUPS:
                self._of_content.clear()
            cost = self._of_content[key] = _cost(self._costs, phase, of_group.group, slots)
        return cost

    def _goes_by_place(self, steps: Steps) -> npt.NDArray[np.bool_]:
        """Return whether the cost of a step depends on the positions of PEs and wafers, bool ``[steps]``."""
        if not self._costs.on_whole_wafers:
            return np.ones(len(steps), np.bool_)
        return transfer_steps(steps, lambda kind: kind.by_place or kind.by_counters or kind.leaves_wafer)


@lru_cache(maxsize=16)
def costs_by_content(
    wafer: WaferSpec, software: SoftwareProfile, element_types: tuple[str, ...]
) -> dict[Hashable, GroupCost]:
    """Return the costs of groups by their content, one dictionary per process, wafer and element types."""
    return {}


def first_steps(phase: Phase) -> I64:
    """Return the first step of each group, int64 ``[groups]``. Groups never extend over loops."""
    alone = (phase.steps.loop < 0) | (phase.steps.overlap < 0)
    same = (phase.steps.overlap[1:] == phase.steps.overlap[:-1]) & (phase.steps.loop[1:] == phase.steps.loop[:-1])
    return np.flatnonzero(np.append(True, alone[1:] | ~same))


def _in_turn(costs: Sequence[GroupCost]) -> GroupCost:
    """Return the concatenated costs of groups."""
    return GroupCost._make(np.concatenate(columns) for columns in zip(*costs, strict=True))


def _no_cost(steps: int) -> GroupCost:
    return GroupCost(np.zeros((steps, len(CAUSES))), np.zeros(steps), np.ones(steps, np.int64), np.zeros(steps))


def _cost(costs: StepCosts, phase: Phase, group: Sequence[int], slots: Slots) -> GroupCost:
    """Return the cost of one group: its transfers start together, its chain and kernels run one after another.

    What takes longer counts.
    """
    cost = _no_cost(len(group))
    chain = [i for i, step in enumerate(group) if phase.steps.computes(step) or phase.steps.in_chain[step]]
    transfers = [i for i in range(len(group)) if i not in chain]
    moving = [i for i in transfers if costs.moves(phase, group[i])] if len(group) > 1 else []
    for turn, repeat in costs.distinct_turns(phase, group, phase.steps.turns(group[0])):
        times = [costs.time(phase, step, slots, turn) for step in group]
        longest = {}
        if transfers:
            slowest = max(transfers, key=lambda i: times[i].cycles)
            time = times[slowest]
            if moving:
                overlap = costs.overlap_time(phase, [group[i] for i in moving], slots, turn)
                if overlap.cycles > time.cycles:
                    slowest, time = max(moving, key=lambda i: times[i].cycles), overlap
                elif slowest in moving:
                    time = replace(overlap, cycles=time.cycles)
            longest = {slowest: time}
        cycles_of_chain = sum(times[i].cycles.total for i in chain)
        if chain and cycles_of_chain >= sum(time.cycles.total for time in longest.values()):
            longest = {i: times[i] for i in chain}
        first = min(longest)
        if phase.steps.overlap[group[0]] >= 0:
            longest[first] = replace(longest[first], cycles=longest[first].cycles.plus(launch=costs.sync))
        for i, time in longest.items():
            cost.contention[i] += time.contention_cycles * repeat
            cost.streams[i] = max(cost.streams[i], time.streams)
            cost.by_cause[i] += time.cycles.times(repeat)[1:]
        if turn == 0:
            cost.first_turn[0] = sum(time.cycles.total for time in longest.values())
    return cost
