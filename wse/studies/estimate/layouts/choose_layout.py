"""The choice of a layout: the fastest for one pass at a time, or the one that is the nearest to another goal.

A layout with the fewest cycles per token may leave room for few KV caches. Where one pass at a time is to be fast, of
the layouts within `MARGIN` of the fastest the one with the most room is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wse.compiler.pipeline import with_tiles
from wse.compiler.search.search import MARGIN, Candidate, Compilation
from wse.errors import BadInput
from wse.reports.terminal import plural
from wse.serving.goal import LATENCY, Goal
from wse.serving.plan import saturating_users
from wse.studies.compile.choose import NARROW, compile_with_remedies, request_cycles
from wse.studies.estimate.layouts.ranked_layouts import (
    CompiledLayout,
    LayoutRanking,
    Variant,
    ranked_layouts,
    variants_of,
)
from wse.studies.estimate.layouts.searches import Search, searches_for, with_trials
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.results.operating_points import user_counts
from wse.studies.results.users import users_at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenLayout:
    """A request with the users of a pass that were chosen for it, and what was compiled.

    ``variants`` are those of the layout that leave more room for caches, where it was chosen for latency.
    """

    prepared: PreparedEstimate
    compilation: Compilation
    variants: tuple[Variant, ...] = ()


def choose_layout(
    prepared: PreparedEstimate, search: Search = compile_with_remedies, goal: Goal | None = None
) -> ChosenLayout:
    """Return the layout that a request's objective and users ask for.

    Args:
        prepared: The request.
        search: `compile_with_remedies`, or `compile_fastest`, which names no remedies where the model does not fit.
        goal: What the layout is chosen for; by default what the request asks for.

    Raises:
        DoesNotFit: the model does not fit, with remedies.
        BadInput: no layout has room for the caches of the users.
    """
    goal = goal or prepared.goal
    if goal.objective == LATENCY:
        users = prepared.options.batch if goal.users is None else goal.users
        if users <= (goal.replicas or 1):
            return fastest_layout(prepared, search(prepared, NARROW))
        goal = replace(goal, users=users)
    layouts = ranked_layouts(prepared, search, goal)
    _check_room(layouts[0])
    return _to_chosen_layout(prepared, layouts[0], layouts)


def layouts_by_users(prepared: PreparedEstimate, search: Search) -> dict[int | None, ChosenLayout]:
    """Return the fastest layouts for 2, 4, 8 ... users, and the layout with the most throughput.

    The numbers of users are powers of two below the one that saturates the layout with the most throughput.

    Args:
        prepared: The request; its objective is throughput, and it has no number of users.
        search: As for `choose_layout`.

    Returns:
        Layouts by number of users, ascending; None, the last key, has the layout with the most throughput. A layout
        that is the fastest for several numbers comes once, with the smallest of them.

    Raises:
        DoesNotFit: the model does not fit.
    """
    ranking = LayoutRanking(prepared, searches_for(prepared, search, prepared.goal))
    layouts = ranking.ranked(prepared.goal)
    fastest: dict[CompiledLayout, int | None] = {layouts[0]: None}
    for users in user_counts(saturating_users(layouts[0].deployment), 1)[1:-1]:
        goal = replace(prepared.goal, users=users, objective=LATENCY)
        fastest.setdefault(ranking.ranked(goal)[0], users)
    in_order = sorted(fastest, key=lambda layout: fastest[layout] or math.inf)
    return {fastest[layout]: _to_chosen_layout(prepared, layout, layouts) for layout in in_order}


def fastest_layout(prepared: PreparedEstimate, compilation: Compilation) -> ChosenLayout:
    """Return the layout with the fewest cycles for a request; of those within `MARGIN` the one with the most room.

    Args:
        prepared: The request.
        compilation: What a search of it found.
    """
    chosen = compilation.candidates[0]
    variants = variants_of(prepared, chosen)
    tokens = prepared.prompt_len + prepared.new_tokens
    users = users_at(chosen.program, tokens)
    rivals = [*enumerate(compilation.candidates), *((0, variant.candidate) for variant in variants)][1:]
    roomier = [(number, one) for number, one in rivals if users_at(one.program, tokens) > users]
    if not roomier:
        return ChosenLayout(prepared=prepared, compilation=compilation, variants=variants)
    most_cycles = (1 + MARGIN) * request_cycles(prepared, chosen.program)
    near = [(number, one) for number, one in roomier if request_cycles(prepared, one.program) <= most_cycles]
    if not near:
        return ChosenLayout(prepared=prepared, compilation=compilation, variants=variants)
    number, best = max(near, key=lambda pair: users_at(pair[1].program, tokens))
    return ChosenLayout(
        prepared=prepared,
        compilation=_compilation(prepared, best, number, compilation),
        variants=variants_of(prepared, best),
    )


def _to_chosen_layout(
    prepared: PreparedEstimate, best: CompiledLayout, layouts: Sequence[CompiledLayout]
) -> ChosenLayout:
    """Return one of the layouts that competed for a request, with the trials of all of them."""
    chosen = _compilation(best.prepared, best.candidate, best.finalist, best.searched)
    searches = dict.fromkeys((best.searched, *(layout.searched for layout in layouts)))
    return ChosenLayout(prepared=best.prepared, compilation=with_trials(prepared, chosen, searches))


def _check_room(layout: CompiledLayout) -> None:
    """Raise BadInput where the caches of the users do not fit."""
    users, room, shape = (
        layout.prepared.request.serving.users,
        layout.deployment.max_concurrency,
        layout.deployment.shape,
    )
    replicas = layout.prepared.goal.replicas_for(room)
    if users is None or users <= replicas * room:
        return
    fewer = f"--users {replicas * room}, " if room else ""
    wafers = plural(layout.candidate.options.wafers, "wafer")
    wafers += "" if replicas == 1 else f" of each of {replicas:,} replicas"
    remedies = "more --wafers or --replicas" if room else "more --wafers"
    message = (
        f"--users {users}: caches of {plural(room, 'sequence')} of {shape.tokens:,} tokens fit on {wafers}; give "
        f"{fewer}{remedies}, or shorter --prompt-len and --new-tokens; `wse compare MODEL --users {users}` finds "
        "wafers and replicas for them"
    )
    raise BadInput(message)


def _compilation(prepared: PreparedEstimate, candidate: Candidate, finalist: int, searched: Compilation) -> Compilation:
    """Return what was compiled for a candidate; the trial of its finalist is the first of those of the search."""
    p, (program, options, choice) = prepared, candidate
    compiled = [*searched.compiled]
    compiled.insert(0, compiled.pop(finalist))
    return replace(
        searched,
        program=with_tiles(program, p.spec, p.wafer, p.software, options, choice),
        options=options,
        choice=choice,
        compiled=tuple(compiled),
    )
