"""Pass 5: colours. The patterns that a stage uses most keep their own; the rest share a pool and are repainted.

A pattern needs its colours on every PE of its lines. Where all patterns of a stage together need more than the wafer
has, the least used take turns in the remaining colours: before such a pattern runs, its routes are rewritten if another
one's stand there, which costs time. Released research kernels do the same (working notes of a CS-3 language-model
project, EPCC 2026: 8 of 24 colours, routes repainted 6 times a layer).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from wse.compiler.state import State, SymPhase
from wse.errors import DoesNotFit
from wse.program import I32, ColourUse, Kind

CACHE_SHIFT_COLOURS = 2  # neighbours alternate by parity
DECODE_WEIGHT = 1000  # a token's patterns count this much more than the prompt's
Key = tuple[int, int, int]  # kind, pattern, axis


@dataclass(kw_only=True)
class _Stage:
    """What one stage's patterns need, and the range of colours that each was given."""

    colours: dict[Key, int] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)
    partners: dict[Key, set[Key]] = field(default_factory=lambda: defaultdict(set))
    given: dict[Key, range] = field(default_factory=dict)
    own: set[Key] = field(default_factory=set)


def route(state: State) -> State:
    """Fill ``colour_uses`` and ``repaints``. Raises DoesNotFit when patterns that run together need too many."""
    available = state.wafer.colours - state.wafer.reserved_colours
    stages = [_demand(state, stage) for stage in range(len(state.plans))]
    uses = []
    for number, stage in enumerate(stages):
        _give(stage, available, number)
        for key, colours in stage.given.items():
            kind, code, axis = key
            uses.append(
                ColourUse(
                    stage=number,
                    pattern=state.patterns[code].name if kind == Kind.LINE else "cache_shift",
                    axis=axis,
                    first=colours.start,
                    colours=len(colours),
                    repainted=key not in stage.own,
                )
            )
    repaints = tuple(_repaints(state, phase, stages) for phase in state.phases)
    return replace(state, colour_uses=tuple(uses), repaints=repaints)


def _needed(state: State, kind: int, code: int) -> int:
    if kind == Kind.LINE:
        return state.patterns[code].colours
    return CACHE_SHIFT_COLOURS if kind == Kind.CACHE_SHIFT else 0


def _demand(state: State, stage: int) -> _Stage:
    found = _Stage()
    for phase in state.phases:
        weight = DECODE_WEIGHT if phase.name == "decode" else 1
        groups: dict[int, set[Key]] = defaultdict(set)
        for step in phase.steps:
            needed = _needed(state, step.kind, step.code)
            if step.stage != stage or needed == 0:
                continue
            key = (step.kind, step.code, step.axis)
            found.colours[key] = needed
            found.uses[key] += weight * (1 if step.loop < 0 else phase.loops[step.loop][2])
            if step.together >= 0:
                groups[step.together].add(key)
        for group in groups.values():
            for key in group:
                found.partners[key] |= group - {key}
    return found


def _give(stage: _Stage, available: int, number: int) -> None:
    """Give each pattern a range of colours: its own while the pool for the others stays large enough."""
    colours = stage.colours
    largest = max((n + sum(colours[p] for p in stage.partners[key]) for key, n in colours.items()), default=0)
    if largest > available:
        message = (
            f"stage {number}: patterns that run together need {largest} colours, the wafer has {available} to give: "
            "use a wafer with more colours"
        )
        raise DoesNotFit(message)
    pool = 0 if sum(colours.values()) <= available else largest
    start = 0
    for key, _ in stage.uses.most_common():
        if start + colours[key] <= available - pool:
            stage.given[key] = range(start, start + colours[key])
            stage.own.add(key)
            start += colours[key]
    for key, _ in stage.uses.most_common():
        if key not in stage.own:
            stage.given[key] = _least_contended(stage, key, start, available)


def _least_contended(stage: _Stage, key: Key, first: int, available: int) -> range:
    """The range in the pool that meets no partner and the fewest uses of others."""
    best: tuple[int, range] | None = None
    for start in range(first, available - stage.colours[key] + 1):
        candidate = range(start, start + stage.colours[key])
        met = [k for k, given in stage.given.items() if k not in stage.own and _meet(given, candidate)]
        if not stage.partners[key].intersection(met):
            contention = sum(stage.uses[k] for k in met)
            if best is None or contention < best[0]:
                best = (contention, candidate)
    assert best is not None
    return best[1]


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _repaints(state: State, phase: SymPhase, stages: list[_Stage]) -> I32:
    """How often the routes of each step are rewritten in one run of the phase, over all turns of its loop."""
    counts = np.zeros(len(phase.steps), np.int32)
    painted: list[set[Key]] = [set() for _ in stages]

    def visit(index: int) -> int:
        step = phase.steps[index]
        key = (step.kind, step.code, step.axis)
        stage = stages[step.stage]
        if _needed(state, step.kind, step.code) == 0 or key in stage.own or key in painted[step.stage]:
            return 0
        over = {k for k in painted[step.stage] if _meet(stage.given[k], stage.given[key])}
        painted[step.stage] -= over
        painted[step.stage].add(key)
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
