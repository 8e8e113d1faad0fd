"""Pass 5: assign colours to the routes of all transfers.

A colour is one of the few numbers (24 on current wafers) that a word can carry. Every router has
one configured path per colour. The *route* of a pattern, such as an all-reduce along rows, is the
configuration of one or more colours in the routers of all PEs on its lines. If the routes of a
stage need more colours in total than the wafer has, some routes share colours. Before a pattern
runs, its route is rewritten unless it is already set up, which costs cycles. Published kernels do
the same: working notes of a CS-3 language-model project (EPCC 2026) use 8 of 24 colours and rewrite
routes 6 times per layer.

Routes of generated tokens keep dedicated colours as far as possible
(`wse.compiler.passes.colouring`). Switching between prompts and tokens is rare compared with
switching between steps. Prompt patterns may therefore take over token colours; the token routes are
restored at the end of a chunk.

In the baseline schedule, the most frequently used routes keep their colours, whether prompts or
tokens use them. The costs of that schedule were fitted to measurements with this rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, permutations
from operator import attrgetter

import numpy as np

from wse.arrays import I32
from wse.compiler.options import BASELINE, PREFILL
from wse.compiler.passes.colouring import Colouring, colouring, rewrite_count
from wse.compiler.passes.route_demand import NO_PATTERN, BlockRoutes, Key, RouteDemand, Visits
from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymSteps, distinct_phases
from wse.errors import TooFewColours
from wse.program.stage import ColourUse
from wse.program.transfers.transfer_types import TRANSFERS
from wse_mappings.result_cache import ResultCache

DECODE_WEIGHT = 1000
"""Weight of a use in decode or a verification pass, relative to a use in a prompt."""


@dataclass(kw_only=True)
class _Stage:
    """The routes of one stage: how often they are used and, once assigned, their colours.

    Token phases are decode and verification. The module docstring defines colours and routes.

    Attributes:
        colours: Number of colours needed by each route.
        uses: How often each route is used in a request. Uses in token phases count `DECODE_WEIGHT`
            times.
        prompt_uses: How often each route is used in prompts; empty for the baseline schedule.
        groups: Sets of routes that run concurrently, plus a single-element set for each route.
        token_routes: Routes used in token phases; all routes for the baseline schedule.
        tokens: For each token phase, the blocks in order, each with the number of consecutive runs;
            empty for the baseline schedule.
        index_of_route: Index of each route, in descending order of use.
        colouring: The assigned colours.
    """

    colours: dict[Key, int] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)
    prompt_uses: Counter[Key] = field(default_factory=Counter)
    groups: list[frozenset[Key]] = field(default_factory=list)
    token_routes: set[Key] = field(default_factory=set)
    tokens: list[list[tuple[Block, int]]] = field(default_factory=list)
    index_of_route: dict[Key, int] = field(default_factory=dict)
    colouring: Colouring = field(default_factory=lambda: Colouring((), 0, ()))

    @property
    def all_own(self) -> bool:
        """True if every route of the stage has its own colours, so that none is ever rewritten."""
        return not any(self.colouring.conflicts) and self.colouring.own.bit_count() == len(self.index_of_route)


def route(state: State) -> State:
    """Assign router colours to all transfers and count how often routes are rewritten at run time.

    A route must be rewritten if another route has used its colours. The pass fills in
    ``colour_uses`` and ``route_rewrites``.

    Raises:
        TooFewColours: Patterns that run concurrently need more colours than the wafer has.
    """
    stages, route_rewrites = colour_stages(state, BlockRoutes(state.patterns))
    uses = []
    for stage_index, stage in stages.items():
        for key, route_index in stage.index_of_route.items():
            kind, pattern, axis = key
            uses.append(
                ColourUse(
                    stage=stage_index,
                    pattern=TRANSFERS[kind].name if pattern == NO_PATTERN else state.patterns[pattern].name,
                    axis=axis,
                    first=stage.colouring.first[route_index],
                    colours=stage.colours[key],
                    is_rewritten=bool(stage.colouring.conflicts[route_index])
                    or not stage.colouring.own >> route_index & 1,
                )
            )
    return replace(
        state, colour_uses=tuple(uses), route_rewrites=tuple(route_rewrites[phase.steps] for phase in state.phases)
    )


def colour_stages(state: State, routes: BlockRoutes) -> tuple[dict[int, _Stage], dict[SymSteps, I32]]:
    """Assign router colours to the routes of all stages, and count how often routes are rewritten.

    1. Count how often each stage uses each route (`_demand`).
    2. Choose colours for the routes of each stage (`_assign`). Stages do not depend on each other.
    3. Count the route rewrites of each step (`_route_rewrites`). A step rewrites a route if the
       colours of the route were last used by another route.

    Args:
        state: State after lowering.
        routes: Lookup of the routes that the steps of each block need. States with the same
            patterns can share it.

    Returns:
        The stages that have steps, with their colours, by index; and for the steps of each phase, the
        number of route rewrites per step, int32 ``[steps]``.

    Raises:
        TooFewColours: Patterns that run concurrently need more colours than the wafer has.
    """
    available, stages = state.wafer.colours - state.wafer.reserved_colours, _demand(state, routes)  # 1
    for stage_index, stage in stages.items():  # 2
        _assign(stage, available, stage_index, routes, state.options.cache)
    # 3. Phases with the same steps are counted once.
    is_prompt = {phase.steps: phase.name == PREFILL for phase in state.phases}
    return stages, {
        steps: _route_rewrites(steps, stages, routes, is_prompt=prompt) for steps, prompt in is_prompt.items()
    }


def _demand(state: State, routes: BlockRoutes) -> dict[int, _Stage]:
    """Count how often each stage uses each route, before colours are assigned.

    A stage is a part of the model, stored on one region of PEs.

    Args:
        state: State after lowering.
        routes: Lookup of the routes that the steps of each block need.

    Returns:
        One record per stage that has steps, by index of the stage.
    """
    stage_of = attrgetter("stage")
    phases = distinct_phases(state.phases)
    is_baseline = state.options.schedule == BASELINE
    used_stages = {run.stage for phase_index in phases for run in state.phases[phase_index].steps.runs}
    stages = {stage_index: _Stage() for stage_index in sorted(used_stages)}
    token_phases = {
        phase_index for phase_index in phases if is_baseline or state.phases[phase_index].name != PREFILL
    } or set(phases)
    for phase_index, count in phases.items():
        phase, is_token_phase = state.phases[phase_index], phase_index in token_phases
        weight = count * (1 if phase.name == PREFILL else DECODE_WEIGHT)
        for (stage_index, block), runs in Counter((run.stage, run.block) for run in phase.steps.runs).items():
            _count_block(stages[stage_index], block, routes, runs * weight, is_of_tokens=is_token_phase)
        if is_token_phase and not is_baseline:
            for stage_index, runs_of_stage in groupby(sorted(phase.steps.runs, key=stage_of), key=stage_of):
                blocks = ((block, len(list(repeats))) for block, repeats in groupby(run.block for run in runs_of_stage))
                stages[stage_index].tokens.append(list(blocks))
    return stages


def _count_block(stage: _Stage, block: Block, routes: BlockRoutes, weight: int, *, is_of_tokens: bool) -> None:
    """Count how often a block (list of steps) uses each route, and add this to a stage's record.

    Args:
        stage: Record of the stage on which the block runs; changed in place.
        block: Steps whose routes are counted.
        routes: Lookup of the routes that the steps of each block need.
        weight: How often the block runs in a request. Outside of prompts, this is multiplied by
            `DECODE_WEIGHT`.
        is_of_tokens: Whether to count the block as part of decode or verification. In the baseline
            schedule, and if only prompts are compiled, all blocks are counted in this way.
    """
    groups: dict[int, list[Key]] = defaultdict(list)
    for step, need in zip(block.steps, routes.of(block), strict=True):
        if need is None:
            continue
        key, colours = need
        stage.colours[key] = colours
        uses = weight * (1 if step.loop < 0 else block.loops[step.loop][2])
        stage.uses[key] += uses
        if is_of_tokens:
            stage.token_routes.add(key)
        else:
            stage.prompt_uses[key] += uses
        stage.groups.append(frozenset((key,)))
        if step.overlap >= 0:
            groups[step.overlap].append(key)
    stage.groups += [frozenset(group) for group in groups.values()]


def _assign(stage: _Stage, available: int, stage_index: int, routes: BlockRoutes, cache: ResultCache) -> None:
    """Assign colours to all routes of a stage.

    1. Index the routes in descending order of use.
    2. Collect everything that affects the choice in a `RouteDemand`, which refers to routes by
       index.
    3. Choose the colours. Stages with identical demands share a cached result.

    Args:
        stage: Record of the stage, which receives the indices and the colours.
        available: Number of the wafer's colours that patterns may use.
        stage_index: Index of the stage, used in the error message.
        routes: Routes of all blocks.
        cache: The request's cache.

    Raises:
        TooFewColours: Routes that are used concurrently need more colours than are available.
    """
    # 1. Index the routes.
    stage.index_of_route = {key: i for i, (key, _) in enumerate(stage.uses.most_common())}
    # 2. Collect the demand.
    groups = set(stage.groups)
    max_widths = [
        max((sum(stage.colours[key] for key in group) for group in groups if group <= routes_in_phases), default=0)
        for routes_in_phases in (stage.token_routes, set(stage.index_of_route))
    ]
    simultaneous = [0] * len(stage.index_of_route)
    for group in groups:
        for key, other_route in permutations(group, 2):
            simultaneous[stage.index_of_route[key]] |= 1 << stage.index_of_route[other_route]
    visits: dict[Block, Visits] = {
        block: tuple((stage.index_of_route[key], times) for _, key, times in routes.visits(block))
        for phase in stage.tokens
        for block, _ in phase
    }
    uses = stage.prompt_uses or stage.uses
    demand = RouteDemand(
        widths=tuple(stage.colours[key] for key in stage.index_of_route),
        is_in_tokens=tuple(key in stage.token_routes for key in stage.index_of_route),
        uses=tuple(uses[key] for key in stage.index_of_route),
        simultaneous_routes=tuple(simultaneous),
        max_widths=(max_widths[0], max_widths[1]),
        tokens=tuple(tuple((visits[block], times) for block, times in phase) for phase in stage.tokens),
    )
    found = cache.of(colouring, 512)(demand, available)  # 3
    if found is None:
        raise TooFewColours(
            f"stage {stage_index}: patterns that run at the same time need {max_widths[1]} colours, but the wafer has "
            f"only {available} for them: use a wafer with more colours"
        )
    stage.colouring = found


def _route_rewrites(phase: SymSteps, stages: Mapping[int, _Stage], routes: BlockRoutes, *, is_prompt: bool) -> I32:
    """Return how many routes each step rewrites in one run of a phase, over all loop iterations.

    A route must be rewritten before a transfer if another route has used its colours in the
    meantime.

    Args:
        phase: Steps of the phase.
        stages: Routes and colours of the stages, by index.
        routes: Routes of all blocks.
        is_prompt: Whether the phase is a prompt chunk. The last step with a route on each stage
            then also restores the routes that decode and verification never rewrite.

    Returns:
        int32 ``[steps]``.
    """
    counts = np.zeros(len(phase), np.int32)
    set_routes = {stage_index: stage.colouring.own for stage_index, stage in stages.items()}
    last_steps = dict.fromkeys(stages, 0)
    for run in phase.runs:
        stage = stages[run.stage]
        if stage.all_own:
            continue
        for index_in_block, key, times in routes.visits(run.block):
            last_steps[run.stage] = run.step + index_in_block
            visit = (stage.index_of_route[key], times)
            count, set_routes[run.stage] = rewrite_count((visit,), set_routes[run.stage], stage.colouring.conflicts)
            counts[run.step + index_in_block] += count
    for stage_index, stage in stages.items():
        counts[last_steps[stage_index]] += (stage.colouring.own & ~set_routes[stage_index]).bit_count() * is_prompt
    return counts
