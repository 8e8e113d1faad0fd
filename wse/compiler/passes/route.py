"""Pass 5: colours. The patterns that a stage uses most keep their own; the rest share a pool and are repainted.

A pattern needs its colours on every PE of its lines. Where all patterns of a stage together need more than the wafer
has, the least used take turns in the remaining colours: before such a pattern runs, its routes are rewritten if another
one's stand there, which costs time. Released research kernels do the same (working notes of a CS-3 language-model
project, EPCC 2026: 8 of 24 colours, routes repainted 6 times a layer).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import combinations

import networkx as nx
import numpy as np

from wse.arrays import I32
from wse.compiler.options import PREFILL
from wse.compiler.state import State, SymStep, SymSteps, distinct_phases
from wse.errors import DoesNotFit
from wse.program.program import ColourUse
from wse.program.steps import Kind
from wse.program.transfers.kinds import TRANSFERS
from wse_mappings.schedule import Arrival, LineSchedule

DECODE_WEIGHT = 1000  # a token's patterns count this much more than the prompt's
Key = tuple[int, int, int]  # kind of transfer, pattern, axis: one route
NO_PATTERN = -1


@dataclass(kw_only=True)
class _Stage:
    """The colours that one stage's routes need, and the range that each got."""

    colours: dict[Key, int] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)
    overlaps: nx.Graph[Key] = field(default_factory=nx.Graph)  # an edge between routes that run at the same time
    groups: list[frozenset[Key]] = field(default_factory=list)  # routes that run at the same time, or one alone
    ranges: dict[Key, range] = field(default_factory=dict)
    own_routes: set[Key] = field(default_factory=set)


def route(state: State) -> State:
    """Fill ``colour_uses`` and ``repaints``. Raises DoesNotFit when patterns that run together need too many."""
    stages, repaints = _painted(state, same_routes(state.patterns))
    uses = []
    for number, stage in enumerate(stages):
        for key, colours in stage.ranges.items():
            kind, pattern, axis = key
            uses.append(
                ColourUse(
                    stage=number,
                    pattern=TRANSFERS[kind].name if pattern == NO_PATTERN else state.patterns[pattern].name,
                    axis=axis,
                    first=colours.start,
                    colours=len(colours),
                    repainted=key not in stage.own_routes,
                )
            )
    return replace(state, colour_uses=tuple(uses), repaints=tuple(repaints[phase.steps] for phase in state.phases))


def repaints(state: State, same: list[int]) -> dict[SymSteps, I32]:
    """The rewrites of routes of each step in one run of a phase, of all phases; ``same`` as of `same_routes`.

    Raises DoesNotFit as `route` does.
    """
    return _painted(state, same)[1]


def _painted(state: State, same: list[int]) -> tuple[list[_Stage], dict[SymSteps, I32]]:
    """The stages with colours for all of their routes, and the rewrites of routes of each step by phase."""
    available, stages = state.wafer.colours - state.wafer.reserved_colours, _demand(state, same)
    for number, stage in enumerate(stages):
        _assign(stage, available, number)
    return stages, {steps: _repaints(state, steps, stages, same) for steps in {phase.steps for phase in state.phases}}


def same_routes(patterns: tuple[LineSchedule, ...]) -> list[int]:
    """The first pattern with the same routes, for each pattern: what arrives is added or compared on the same links."""
    first: dict[tuple[object, ...], int] = {}
    same_routes = []
    for code, pattern in enumerate(patterns):
        links = pattern.messages.copy()
        links[:, 2] = links[:, 2] == Arrival.MULTICAST
        arrays = (links, pattern.first, pattern.variants)
        same_routes.append(first.setdefault((pattern.length, pattern.colours, *(array.tobytes() for array in arrays)), code))
    return same_routes


def _key(state: State, step: SymStep, same: list[int]) -> tuple[Key, int] | None:
    """The route of a step and the colours that it needs, if any."""
    if step.kind != Kind.TRANSFER:
        return None
    has_pattern = step.pattern >= 0
    colours = TRANSFERS[step.code].colours(state.patterns[step.pattern] if has_pattern else None)
    return ((step.code, same[step.pattern] if has_pattern else NO_PATTERN, step.axis), colours) if colours else None


def _demand(state: State, same: list[int]) -> list[_Stage]:
    stages = [_Stage() for _ in state.plans]
    for number, count in distinct_phases(state.phases).items():
        phase = state.phases[number]
        weight = count * (1 if phase.name == PREFILL else DECODE_WEIGHT)
        for (stage, block), runs in Counter((run.stage, run.block) for run in phase.steps.runs).items():
            demand = stages[stage]
            groups: dict[int, list[Key]] = defaultdict(list)
            for step in block.steps:
                need = _key(state, step, same)
                if need is None:
                    continue
                key, demand.colours[need[0]] = need
                demand.uses[key] += runs * weight * (1 if step.loop < 0 else block.loops[step.loop][2])
                demand.overlaps.add_node(key)
                demand.groups.append(frozenset((key,)))
                if step.overlap >= 0:
                    groups[step.overlap].append(key)
            for group in groups.values():
                demand.groups.append(frozenset(group))
                demand.overlaps.add_edges_from(combinations(group, 2))
    for demand in stages:
        demand.overlaps.remove_edges_from(nx.selfloop_edges(demand.overlaps))
    return stages


def _assign(stage: _Stage, available: int, number: int) -> None:
    """Give each route a range of colours, as `_ranges_beside` does, beside the smallest pool for which there are some.

    Raises DoesNotFit where routes that run together need more colours than there are.
    """
    together = max((sum(stage.colours[key] for key in group) for group in stage.groups), default=0)
    pool = 0 if sum(stage.colours.values()) <= available else together
    while pool <= available:
        if _ranges_beside(stage, available, pool):
            return
        pool += 1
    message = (
        f"stage {number}: patterns that run together need {together} colours, the wafer has {available} to give: "
        "use a wafer with more colours"
    )
    raise DoesNotFit(message)


def _ranges_beside(stage: _Stage, available: int, pool: int) -> bool:
    """Give routes ranges of colours beside a pool of so many; whether there are enough.

    1. The routes that are used most get colours of their own, as many as the pool leaves.
    2. Each other one, those used most first, gets the range of the pool that is wanted least by others, and by none
       that runs at the same time.
    """
    stage.ranges, stage.own_routes, start = {}, set(), 0
    # 1. Colours of their own.
    for key, _ in stage.uses.most_common():
        if start + stage.colours[key] <= available - pool:
            stage.ranges[key] = range(start, start + stage.colours[key])
            stage.own_routes.add(key)
            start += stage.colours[key]
    # 2. The pool.
    for key, _ in stage.uses.most_common():
        if key in stage.own_routes:
            continue
        beside = [stage.ranges[other] for other in stage.overlaps[key] if other in stage.ranges]
        width = stage.colours[key]
        ranges = [range(first, first + width) for first in range(start, available - width + 1)]
        free = [one for one in ranges if not any(_overlap(one, other) for other in beside)]
        if not free:
            return False
        stage.ranges[key] = min(free, key=lambda one: _contention(stage, one))
    return True


def _contention(stage: _Stage, candidate: range) -> int:
    """Uses of the routes that a range of the pool would have to take turns with."""
    return sum(
        stage.uses[k]
        for k, colours in stage.ranges.items()
        if k not in stage.own_routes and _overlap(colours, candidate)
    )


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _repaints(state: State, phase: SymSteps, stages: list[_Stage], same: list[int]) -> I32:
    """The number of rewrites of the routes of each step in one run of the phase, over all turns of its loop."""
    counts = np.zeros(len(phase), np.int32)
    painted: list[set[Key]] = [set() for _ in stages]

    def visit(number: int, step: SymStep) -> int:
        stage, need = stages[number], _key(state, step, same)
        if need is None or need[0] in stage.own_routes or need[0] in painted[number]:
            return 0
        key = need[0]
        painted[number] -= {k for k in painted[number] if _overlap(stage.ranges[k], stage.ranges[key])}
        painted[number].add(key)
        return 1

    for run in phase.runs:
        if len(stages[run.stage].own_routes) == len(stages[run.stage].colours):
            continue
        steps, index = run.block.steps, 0
        while index < len(steps):
            loop = steps[index].loop
            first, end, turns = (index, index + 1, 1) if loop < 0 else run.block.loops[loop]
            for turn in range(min(turns, 2)):
                for inside in range(first, end):
                    counts[run.step + inside] += visit(run.stage, steps[inside]) * (1 if turn == 0 else turns - 1)
            index = end
    return counts
