"""Pass 5: colours. Routes of generated tokens keep colours of their own as far as there are any; others take turns.

A pattern needs its colours on every PE of its lines. Where all patterns of a stage together need more than the wafer
has, some take turns: before such a pattern runs, its routes are rewritten if another one's stand there, which costs
time. Released research kernels do the same (working notes of a CS-3 language-model project, EPCC 2026: 8 of 24 colours,
routes repainted 6 times a layer).

Prompts and tokens do not alternate as steps do. So patterns of prompts alone may take the colours of tokens; routes
that tokens find in place are put back at the end of a chunk. The released schedule has the colours of then: those used
most, by whatever phase, keep theirs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, permutations

import numpy as np

from wse.arrays import I32
from wse.compiler.options import PREFILL, RELEASED
from wse.compiler.passes.colouring import Colouring, RouteDemand, Visits, colouring, repaint_count
from wse.compiler.state import State
from wse.compiler.symbolic import Block, BlockRun, SymStep, SymSteps, distinct_phases
from wse.errors import TooFewColours
from wse.program.program import ColourUse
from wse.program.steps import Kind
from wse.program.transfers.kinds import TRANSFERS
from wse_mappings.result_cache import ResultCache
from wse_mappings.schedule import Arrival, LineSchedule

DECODE_WEIGHT = 1000  # a token's patterns count this much more than the prompt's
Key = tuple[int, int, int]  # kind of transfer, pattern, axis: one route
NO_PATTERN = -1


@dataclass(kw_only=True)
class _Stage:
    """The routes of one stage by index, the most used first, and their colours."""

    colours: dict[Key, int] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)
    prompt_uses: Counter[Key] = field(default_factory=Counter)  # where routes of tokens come first
    groups: list[frozenset[Key]] = field(default_factory=list)  # routes that run at the same time, or one alone
    of_tokens: set[Key] = field(default_factory=set)
    tokens: list[list[tuple[Block, int]]] = field(default_factory=list)  # blocks of each phase, how often in a row
    number: dict[Key, int] = field(default_factory=dict)
    colouring: Colouring = field(default_factory=lambda: Colouring((), 0, ()))

    @property
    def all_own(self) -> bool:
        """True if all routes stay as they are."""
        return not any(self.colouring.conflicts) and self.colouring.own.bit_count() == len(self.number)


def route(state: State) -> State:
    """Fill ``colour_uses`` and ``repaints``.

    Raises TooFewColours when simultaneous patterns need too many.
    """
    stages, repaints = _colour_stages(state, same_routes(state.patterns))
    uses = []
    for number, stage in enumerate(stages):
        for key, route_number in stage.number.items():
            kind, pattern, axis = key
            uses.append(
                ColourUse(
                    stage=number,
                    pattern=TRANSFERS[kind].name if pattern == NO_PATTERN else state.patterns[pattern].name,
                    axis=axis,
                    first=stage.colouring.first[route_number],
                    colours=stage.colours[key],
                    repainted=bool(stage.colouring.conflicts[route_number])
                    or not stage.colouring.own >> route_number & 1,
                )
            )
    return replace(state, colour_uses=tuple(uses), repaints=tuple(repaints[phase.steps] for phase in state.phases))


def repaints(state: State, same: list[int]) -> dict[SymSteps, I32]:
    """Return the route rewrites of each step in one run of each phase.

    Raises TooFewColours as `route` does.
    """
    return _colour_stages(state, same)[1]


def _colour_stages(state: State, same: list[int]) -> tuple[list[_Stage], dict[SymSteps, I32]]:
    """Return the stages with colours for all their routes, and the route rewrites of each step by phase."""
    routes = _Routes(state, same)
    available, stages = state.wafer.colours - state.wafer.reserved_colours, _demand(state, routes)
    for number, stage in enumerate(stages):
        _assign(stage, available, number, routes, state.options.cache)
    is_prompt = {phase.steps: phase.name == PREFILL for phase in state.phases}
    return stages, {steps: _repaints(steps, stages, routes, is_prompt=prompt) for steps, prompt in is_prompt.items()}


def same_routes(patterns: tuple[LineSchedule, ...]) -> list[int]:
    """Return for each pattern the first one with the same routes; they differ only in what happens on arrival."""
    first: dict[tuple[object, ...], int] = {}
    same_routes = []
    for code, pattern in enumerate(patterns):
        links = pattern.messages.copy()
        links[:, 2] = links[:, 2] == Arrival.MULTICAST
        arrays = (links, pattern.first, pattern.variants)
        same_routes.append(
            first.setdefault((pattern.length, pattern.colours, *(array.tobytes() for array in arrays)), code)
        )
    return same_routes


class _Routes:
    """The routes of the patterns of a state, with equal routes identified."""

    def __init__(self, state: State, same: list[int]) -> None:
        self._patterns, self._same = state.patterns, same
        self._of_blocks: dict[Block, list[tuple[Key, int] | None]] = {}
        self._visits: dict[Block, list[tuple[int, Key, int]]] = {}

    def of(self, block: Block) -> list[tuple[Key, int] | None]:
        """Return the route of each step of a block and the number of its colours."""
        if block not in self._of_blocks:
            self._of_blocks[block] = [self._of_step(step) for step in block.steps]
        return self._of_blocks[block]

    def visits(self, block: Block) -> list[tuple[int, Key, int]]:
        """Return the steps of a block that need a route, in execution order: step, route, and count."""
        if block not in self._visits:
            needs = self.of(block)
            self._visits[block] = [
                (index, need[0], times) for index, times in _visits(block) if (need := needs[index]) is not None
            ]
        return self._visits[block]

    def _of_step(self, step: SymStep) -> tuple[Key, int] | None:
        if step.kind != Kind.TRANSFER:
            return None
        has_pattern = step.pattern >= 0
        colours = TRANSFERS[step.code].colours(self._patterns[step.pattern] if has_pattern else None)
        pattern = self._same[step.pattern] if has_pattern else NO_PATTERN
        return ((step.code, pattern, step.axis), colours) if colours else None


def _demand(state: State, routes: _Routes) -> list[_Stage]:
    stages = [_Stage() for _ in state.plans]
    phases = distinct_phases(state.phases)
    is_released = state.options.schedule == RELEASED
    of_tokens = {number for number in phases if is_released or state.phases[number].name != PREFILL} or set(phases)
    for number, count in phases.items():
        phase, is_of_tokens = state.phases[number], number in of_tokens
        weight = count * (1 if phase.name == PREFILL else DECODE_WEIGHT)
        for (stage, block), runs in Counter((run.stage, run.block) for run in phase.steps.runs).items():
            _count_block(stages[stage], block, routes, runs * weight, is_of_tokens=is_of_tokens)
        if is_of_tokens and not is_released:
            for stage, runs_of_stage in groupby(sorted(phase.steps.runs, key=_stage_of), key=_stage_of):
                blocks = ((block, len(list(alike))) for block, alike in groupby(run.block for run in runs_of_stage))
                stages[stage].tokens.append(list(blocks))
    return stages


def _stage_of(run: BlockRun) -> int:
    return run.stage


def _count_block(demand: _Stage, block: Block, routes: _Routes, weight: int, *, is_of_tokens: bool) -> None:
    """Add the demand of a block to that of its stage."""
    groups: dict[int, list[Key]] = defaultdict(list)
    for step, need in zip(block.steps, routes.of(block), strict=True):
        if need is None:
            continue
        key, demand.colours[need[0]] = need
        uses = weight * (1 if step.loop < 0 else block.loops[step.loop][2])
        demand.uses[key] += uses
        if is_of_tokens:
            demand.of_tokens.add(key)
        else:
            demand.prompt_uses[key] += uses
        demand.groups.append(frozenset((key,)))
        if step.overlap >= 0:
            groups[step.overlap].append(key)
    demand.groups += [frozenset(group) for group in groups.values()]


def _assign(stage: _Stage, available: int, number: int, routes: _Routes, cache: ResultCache) -> None:
    """Assign colours to each route.

    Raises TooFewColours where simultaneous routes need more than there are.
    """
    stage.number = {key: i for i, (key, _) in enumerate(stage.uses.most_common())}
    groups = set(stage.groups)
    together = [
        max((sum(stage.colours[key] for key in group) for group in groups if group <= of_phases), default=0)
        for of_phases in (stage.of_tokens, set(stage.number))
    ]
    beside = [0] * len(stage.number)
    for group in groups:
        for key, other in permutations(group, 2):
            beside[stage.number[key]] |= 1 << stage.number[other]
    visits = {block: _route_visits(stage, block, routes) for phase in stage.tokens for block, _ in phase}
    uses = stage.prompt_uses or stage.uses
    demand = RouteDemand(
        widths=tuple(stage.colours[key] for key in stage.number),
        of_tokens=tuple(key in stage.of_tokens for key in stage.number),
        uses=tuple(uses[key] for key in stage.number),
        beside=tuple(beside),
        together=(together[0], together[1]),
        tokens=tuple(tuple((visits[block], times) for block, times in phase) for phase in stage.tokens),
    )
    found = cache.of(colouring, 512)(demand, available)
    if found is None:
        message = (
            f"stage {number}: patterns that run together need {together[1]} colours, the wafer has {available} to "
            "give: use a wafer with more colours"
        )
        raise TooFewColours(message)
    stage.colouring = found


def _route_visits(stage: _Stage, block: Block, routes: _Routes) -> Visits:
    """Return the indices of the routes that a block needs, in order."""
    return tuple((stage.number[key], times) for _, key, times in routes.visits(block))


def _visits(block: Block) -> Iterator[tuple[int, int]]:
    """Return the steps of a block in execution order with their counts; a loop's second iteration stands for all."""
    index = 0
    while index < len(block.steps):
        loop = block.steps[index].loop
        first, end, turns = (index, index + 1, 1) if loop < 0 else block.loops[loop]
        for turn in range(min(turns, 2)):
            for inside in range(first, end):
                yield inside, 1 if turn == 0 else turns - 1
        index = end


def _repaints(phase: SymSteps, stages: list[_Stage], routes: _Routes, *, is_prompt: bool) -> I32:
    """Return the route rewrites of each step in one run of the phase, over all iterations of its loop.

    A prompt's chunk puts back the routes that tokens find in place, at its last step with a route.
    """
    counts = np.zeros(len(phase), np.int32)
    painted = [stage.colouring.own for stage in stages]
    last = [0] * len(stages)
    for run in phase.runs:
        stage = stages[run.stage]
        if stage.all_own:
            continue
        for inside, key, times in routes.visits(run.block):
            last[run.stage] = run.step + inside
            visit = (stage.number[key], times)
            count, painted[run.stage] = repaint_count((visit,), painted[run.stage], stage.colouring.conflicts)
            counts[run.step + inside] += count
    for number, stage in enumerate(stages):
        counts[last[number]] += (stage.colouring.own & ~painted[number]).bit_count() * is_prompt
    return counts
