"""Pass 5: colours. The patterns that a stage uses most keep colours of their own; the rest share a pool and are repainted.

A pattern needs its colours on every PE of its lines. Where all patterns of a stage together need more than the wafer has, the least used
take turns in the remaining colours: before such a pattern runs, its routes are rewritten, which costs time. Published kernels
do the same (public notes of a CS-3 language-model project: 8 of 24 colours, routes repainted 6 times a layer).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from wse.compiler.state import State, SymPhase
from wse.errors import DoesNotFit
from wse.program import I32, ColourUse, Kind

CACHE_SHIFT_COLOURS = 2  # neighbours alternate by parity
Key = tuple[int, int, int]  # kind, pattern, axis


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    colours: dict[Key, int]
    uses: Counter[Key]
    largest_group: int


def route(state: State) -> State:
    """Fill ``colour_uses`` and ``repaints``. Raises DoesNotFit when one pattern alone, or two at once, need too many."""
    available = state.wafer.colours - state.wafer.reserved_colours
    uses: list[ColourUse] = []
    static: list[set[Key]] = []
    pools: list[int] = []
    demands = [_demand(state, stage) for stage in range(len(state.plans))]
    for stage, demand in enumerate(demands):
        fixed, pool = _choose(demand, available, stage)
        static.append(fixed)
        pools.append(pool)
        for (kind, code, axis), count in demand.colours.items():
            name = state.patterns[code].name if kind == Kind.LINE else "cache_shift"
            own = (kind, code, axis) in fixed
            uses.append(ColourUse(stage=stage, pattern=name, axis=axis, colours=count, repainted=not own))
    repaints = tuple(_repaints(phase, demands, static, pools) for phase in state.phases)
    return replace(state, colour_uses=tuple(uses), repaints=repaints)


def _key(step_kind: int, code: int, axis: int) -> Key:
    return (step_kind, code, axis)


def _demand(state: State, stage: int) -> _Demand:
    colours: dict[Key, int] = {}
    uses: Counter[Key] = Counter()
    groups: Counter[tuple[int, int]] = Counter()
    for number, phase in enumerate(state.phases):
        weight = 1000 if phase.name == "decode" else 1
        for step in phase.steps:
            if step.stage != stage or step.kind not in (Kind.LINE, Kind.CACHE_SHIFT):
                continue
            key = _key(step.kind, step.code, step.axis)
            needed = state.patterns[step.code].colours if step.kind == Kind.LINE else CACHE_SHIFT_COLOURS
            if needed == 0:
                continue
            turns = 1 if step.loop < 0 else phase.loops[step.loop][2]
            colours[key] = needed
            uses[key] += weight * turns
            if step.together >= 0:
                groups[number, step.together] += needed
    return _Demand(colours=colours, uses=uses, largest_group=max([*groups.values(), *colours.values(), 0]))


def _choose(demand: _Demand, available: int, stage: int) -> tuple[set[Key], int]:
    """The patterns with colours of their own, and the size of the pool for the others."""
    if demand.largest_group > available:
        message = (
            f"stage {stage}: patterns that run together need {demand.largest_group} colours, {available} are available: "
            "choose a wafer file with more colours"
        )
        raise DoesNotFit(message)
    if sum(demand.colours.values()) <= available:
        return set(demand.colours), 0
    pool = demand.largest_group
    fixed: set[Key] = set()
    left = available - pool
    for key, _ in demand.uses.most_common():
        if demand.colours[key] <= left:
            fixed.add(key)
            left -= demand.colours[key]
    return fixed, available - sum(demand.colours[key] for key in fixed)


def _repaints(phase: SymPhase, demands: list[_Demand], static: list[set[Key]], pools: list[int]) -> I32:
    """How often the routes of each step are rewritten in one run of the phase, over all turns of its loop."""
    counts = np.zeros(len(phase.steps), np.int32)
    painted: list[list[Key]] = [[] for _ in demands]

    def visit(index: int) -> int:
        step = phase.steps[index]
        key = _key(step.kind, step.code, step.axis)
        colours = demands[step.stage].colours
        if key not in colours or step.kind not in (Kind.LINE, Kind.CACHE_SHIFT) or key in static[step.stage]:
            return 0
        mine = painted[step.stage]
        if key in mine:
            mine.remove(key)
            mine.append(key)
            return 0
        while sum(colours[k] for k in mine) + colours[key] > pools[step.stage]:
            mine.pop(0)
        mine.append(key)
        return 1

    index = 0
    while index < len(phase.steps):
        loop = phase.steps[index].loop
        if loop < 0:
            counts[index] = visit(index)
            index += 1
            continue
        first, end, turns = phase.loops[loop]
        for turn in range(min(turns, 2)):
            for inside in range(first, end):
                counts[inside] += visit(inside) * (1 if turn == 0 else turns - 1)
        index = end
    return counts
