"""Cycle counts of overlap groups (steps that run concurrently), over all iterations of their loops.

A step outside any overlap group counts as a group of one step. From the cycle counts of all groups,
`starts` computes when each step of a phase starts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.backends.fabric.group_time import GroupCost, group_time, zero_cost
from wse.backends.fabric.step_classes import by_slots, contents_of
from wse.backends.fabric.step_cost import StepCosts
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.steps import Phase, Slots, Steps
from wse.program.transfers.transfer_types import transfer_steps

MAX_GROUPS: Final = 4096
"""Maximum number of cached group costs for a wafer, software profile and element types.

Each needs about 2 kB, plus its patterns.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GroupClass:
    """Set of overlap groups that cost the same number of cycles. Only one group is timed.

    An overlap group consists of steps of a phase that run concurrently.

    Attributes:
        group: Indices of the steps of the group that is timed.
        depends_on_experts: True if the cost depends on which experts the tokens are routed to.
        growing_stages: For each step of ``group`` whose cost grows with the number of cached
            tokens, the index of its stage (a group of layers).
        content: Hashable description of the steps. Groups with equal descriptions, and equal
            numbers of cached tokens, cost the same, even in different Programs. None if the cost
            also depends on the positions of PEs and wafers.
    """

    group: range
    depends_on_experts: bool
    growing_stages: tuple[int, ...]
    content: Hashable


class _GroupClasses(NamedTuple):
    """Overlap groups (steps that run concurrently) of a phase, divided into classes of equal cost.

    Only one group of each class is timed. The costs of the timed groups form a table with one row
    for each of their steps.

    Attributes:
        classes: The classes, in the order of the table. Each names the group that is timed.
        growing_rows: Classes whose cost grows with the number of cached tokens, each with its rows
            of the table. Classes whose cost depends on the selected experts are omitted.
        rows: int64 ``[steps]``: for each step of the phase, the row of the table with its cost.
    """

    classes: list[_GroupClass]
    growing_rows: list[tuple[_GroupClass, slice]]
    rows: I64


class GroupCosts:
    """Cost model for overlap groups (steps that run concurrently), with caches.

    Groups of one class cost the same, so only one group is timed per class and number of cache
    slots. If a cost does not depend on the positions of PEs and wafers, it is cached for all
    Programs of the process with the same wafer, software profile and element types.

    Groups whose work depends on the selected experts differ from run to run. They get no cycles
    here; ``expert_costs`` adds their cycles.
    """

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._origin: GroupCosts | None = None  # model of which this one is a variant
        self._classes_by_steps: dict[Steps, _GroupClasses] = {}
        self._first_costs: dict[tuple[Steps, bool], GroupCost] = {}  # all classes, for the slots of the first request
        self._known_costs: dict[tuple[_GroupClass, bool, tuple[int, ...]], GroupCost] = {}
        wafer_without_links = replace(costs.wafer, wafer_link_bytes_per_s=0.0, wafer_link_latency_s=0.0)
        self._costs_by_content = costs_by_content(wafer_without_links, costs.software, costs.program.element_types)

    def with_costs(self, costs: StepCosts) -> GroupCosts:
        """Return a cost model of the same Program that uses other cycle counts for single steps.

        The new model reuses the classes of this model, and the cycles of groups whose steps cost
        the same in both models. It has its own cache, so studies of many variants do not evict
        results from the cache that all Programs share.

        Args:
            costs: The other cycle counts.
        """
        groups = copy(self)
        groups._costs, groups._origin = costs, self
        groups._first_costs, groups._known_costs, groups._costs_by_content = {}, {}, {}
        return groups

    def of(self, phase: Phase, slots: Slots, classes: I64) -> GroupCost:
        """Return the cost of a phase, computed group by group, with one row per step.

        The steps of an overlap group run concurrently. Groups of the same class are timed only
        once.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            classes: int64 ``[steps]``, equal numbers for steps that cost the same. All phases with
                the same steps must have the same numbers, because results are cached by steps.
        """
        if phase.steps not in self._classes_by_steps:
            self._classes_by_steps[phase.steps] = self._classes(phase.steps, classes)
        group_classes, growing_rows, rows = self._classes_by_steps[phase.steps]
        place = phase.steps, phase.begins
        if place not in self._first_costs:
            self._first_costs[place] = _concatenated(
                [self._class_cost(phase, group_class, slots) for group_class in group_classes]
            )
        costs = _concatenated([self._first_costs[place]])
        for group_class, class_rows in growing_rows:  # other costs are those of the first request
            for column, class_cost in zip(costs, self._class_cost(phase, group_class, slots), strict=True):
                column[class_rows] = class_cost
        return GroupCost._make(column[rows] for column in costs)

    def _classes(self, steps: Steps, classes: I64) -> _GroupClasses:
        """Divide the overlap groups of a phase into classes with the same cost.

        An overlap group consists of steps that run concurrently. Two groups are in one class if
        their steps have the same numbers in ``classes``, in the same order.

        Args:
            steps: Steps of the phase.
            classes: int64 ``[steps]``, equal numbers for steps that cost the same.
        """
        first, numbers, patterns = first_steps(steps), classes.tolist(), self._costs.program.patterns
        keys = [tuple(numbers[begin:end]) for begin, end in pairwise([*first.tolist(), len(numbers)])]
        begins = dict(zip(keys, first.tolist(), strict=True))  # first step of one group of each class
        distinct = np.unique(classes)
        contents = dict(zip(distinct.tolist(), contents_of(steps, distinct), strict=True))
        grows, by_place = by_slots(steps), self._depends_on_position(steps)
        group_classes = []
        for key, begin in begins.items():
            group = range(begin, begin + len(key))
            group_patterns = tuple(patterns[i] if i >= 0 else None for i in steps.pattern[group].tolist())
            group_classes.append(
                _GroupClass(
                    group=group,
                    depends_on_experts=bool(steps.depends_on_experts[begin]),
                    growing_stages=tuple(steps.stage[group][grows[group]].tolist()),
                    content=None if by_place[group].any() else (tuple(contents[n] for n in key), group_patterns),
                )
            )
        ends = np.array([len(key) for key in begins]).cumsum().tolist()
        table_rows = [slice(begin, end) for begin, end in pairwise([0, *ends])]
        first_rows = {key: class_rows.start for key, class_rows in zip(begins, table_rows, strict=True)}
        rows = np.repeat([first_rows[key] for key in keys] - first, np.diff(first, append=len(numbers)))
        growing_rows = [
            (group_class, class_rows)
            for group_class, class_rows in zip(group_classes, table_rows, strict=True)
            if group_class.growing_stages and not group_class.depends_on_experts
        ]
        return _GroupClasses(group_classes, growing_rows, rows + np.arange(len(numbers)))

    def _class_cost(self, phase: Phase, group_class: _GroupClass, slots: Slots) -> GroupCost:
        """Return the cost of one overlap group of a class, from this Program's cache if possible.

        An overlap group consists of steps that run concurrently, and all groups of a class cost the
        same. If the work depends on the selected experts, the result is 0 cycles.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            group_class: The class.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
        """
        if group_class.depends_on_experts:
            return zero_cost(len(group_class.group))
        in_use = tuple(slots[stage] for stage in group_class.growing_stages)
        key = (group_class, phase.begins, in_use)
        if key not in self._known_costs:
            origin, group, at_place = self._origin, group_class.group, group_class.content is None
            if origin is not None and self._costs.cost_as(origin._costs, phase, group, at_place=at_place):
                self._known_costs[key] = origin._class_cost(phase, group_class, slots)
            else:
                self._known_costs[key] = self._group_cost(phase, group_class, in_use, slots)
        return self._known_costs[key]

    def _group_cost(self, phase: Phase, group_class: _GroupClass, in_use: tuple[int, ...], slots: Slots) -> GroupCost:
        """Return the cost of a class of overlap groups (steps that run concurrently).

        If the cost does not depend on the positions of PEs, it is cached for all Programs of the
        process.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            group_class: The class.
            in_use: Number of cached tokens for each item of ``group_class.growing_stages``.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
        """
        if group_class.content is None:
            return group_time(self._costs, phase, group_class.group, slots)
        key = (group_class.content, in_use)
        cost = self._costs_by_content.get(key)
        if cost is None:
            if len(self._costs_by_content) >= MAX_GROUPS:
                self._costs_by_content.clear()
            cost = self._costs_by_content[key] = group_time(self._costs, phase, group_class.group, slots)
        return cost

    def _depends_on_position(self, steps: Steps) -> npt.NDArray[np.bool_]:
        """Return for which steps the cost depends on the position of their rectangle of PEs.

        On a wafer with dead PEs or links, these are all steps.

        Returns:
            bool ``[steps]``.
        """
        if not self._costs.on_whole_wafers:
            return np.ones(len(steps), np.bool_)
        return transfer_steps(steps, lambda kind: kind.by_place or kind.by_counters or kind.leaves_wafer)


@lru_cache(maxsize=16)
def costs_by_content(
    wafer: WaferSpec, software: SoftwareProfile, element_types: tuple[str, ...]
) -> dict[Hashable, GroupCost]:
    """Return the cache of overlap-group costs, which all Programs in this process share.

    The steps of an overlap group run concurrently. Each combination of wafer, software profile and
    element types has its own cache. Links between wafers are not part of that combination, so
    groups that use them are never stored. A key is a pair: a description of the group
    (`_GroupClass.content`), and the number of cached tokens for each step whose cost grows with it.
    """
    return {}


def first_steps(steps: Steps) -> I64:
    """Return the index of the first step of each overlap group of a phase, as int64 ``[groups]``.

    The steps of an overlap group run concurrently. A step that runs alone forms its own group. A
    group ends where its loop ends.
    """
    is_single = (steps.loop < 0) | (steps.overlap < 0)
    in_same_group = (steps.overlap[1:] == steps.overlap[:-1]) & (steps.loop[1:] == steps.loop[:-1])
    return np.flatnonzero(np.append(True, is_single[1:] | ~in_same_group))


def _concatenated(costs: Sequence[GroupCost]) -> GroupCost:
    """Concatenate the costs of several overlap groups into one table with one row per step.

    An overlap group consists of steps that run concurrently.
    """
    return GroupCost._make(np.concatenate(columns) for columns in zip(*costs, strict=True))


def origins(steps: Steps) -> tuple[I64, I64]:
    """Return which steps determine when each step starts: the first of its group and its loop.

    The result is the input of `starts`. A group consists of steps that run at the same time.

    Returns:
        Two arrays, int64 ``[steps]``: the index of the first step of each step's group, and the
        index of the first step of its loop, or of the step itself outside loops.
    """
    first = first_steps(steps)
    first_of_group = np.repeat(first, np.diff(first, append=len(steps)))
    first_of_loop = np.where(steps.loop < 0, np.arange(len(steps)), np.append(steps.loops[:, 0], 0)[steps.loop])
    return first_of_group, first_of_loop


def starts(first_of_group: I64, first_of_loop: I64, cost: GroupCost) -> F64:
    """Return the cycle at which each step starts for the first time, as float64 ``[steps]``.

    A step in a loop starts after all steps before the loop and after the first iteration of the
    preceding steps in the loop.

    Args:
        first_of_group: int64 ``[steps]``, the first step of each step's group of concurrent steps.
        first_of_loop: int64 ``[steps]``, the first step of each step's loop, or the step itself.
        cost: Cost of the groups, with one row per step.
    """
    cycles_before, first_iteration_cycles = (
        np.append(0.0, cycles.cumsum())[:-1] for cycles in (cost.by_cause.sum(axis=1), cost.first_iteration)
    )
    return np.asarray(
        cycles_before[first_of_loop] + first_iteration_cycles[first_of_group] - first_iteration_cycles[first_of_loop],
        np.float64,
    )
