"""Searches for layouts that serve a number of users, and the table of all layouts they tried.

The layout with the shortest request time often uses only part of each wafer. Layouts on whole
wafers may be slower for one user, but they can hold more caches, process prompts faster, and serve
more users concurrently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from wse.bisection import largest_passing
from wse.compiler.search.feasibility import fitting_trial
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.remedies import max_wafer_count
from wse.compiler.search.search import Breadth, Compilation
from wse.compiler.search.trials.trial import Trial
from wse.errors import BadInput, DoesNotFit
from wse.serving.goal import Goal
from wse.studies.compile.capacity import users_by_bytes, wafers_by_bytes
from wse.studies.compile.choose import compile_fastest
from wse.studies.compile.request_time import request_cycles
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.results.sram import users_at
from wse_mappings.regions.layout import Layout

FASTEST: Final = Breadth(finalists=2, margin=1.0, whole_wafer_finalists=2)
"""Search for the two fastest layouts for one user, and the next two fastest on whole wafers."""
MANY_USERS: Final = Breadth(finalists=4, margin=math.inf, users=math.inf)
"""Search for the four fastest layouts on whole wafers, with as many passes as they allow."""

Search = Callable[[PreparedEstimate, Breadth], Compilation]
"""Function that searches for a request's layouts with a given `Breadth`."""


def search_for_room(
    prepared_estimate: PreparedEstimate, users: int, users_in_flight: float = math.inf
) -> list[Compilation]:
    """Search for the best layouts for many users with room for the KV caches of a number of users.

    Only layouts that use all PEs of each wafer are tried.

    Args:
        prepared_estimate: The request.
        users: Number of users of one replica; 0 if no room is required.
        users_in_flight: Maximum number of users of one replica that layouts serve at the same time.

    Returns:
        A list with the search result; an empty list if no layout has enough room.
    """
    if users > users_by_bytes(prepared_estimate):
        return []
    try:
        compilation = compile_fastest(with_room(prepared_estimate, users), MANY_USERS._replace(users=users_in_flight))
    except (BadInput, DoesNotFit):
        return []
    tokens = prepared_estimate.tokens_per_user
    return [compilation] if any(users_at(c.program, tokens) >= users for c in compilation.candidates) else []


def trial_with_room(prepared_estimate: PreparedEstimate, users: int, misfits: Misfits | None = None) -> Trial | None:
    """Return some layout on which the KV caches of a number of users fit; None if there is none.

    The layout may be slow. Layouts that use all PEs of each wafer are tried, with the smallest
    chunks, until one fits. If the request states a longer context than prompt and answer have, or a
    shared prefix, trials do not know the room, and layouts are fully compiled.

    Args:
        prepared_estimate: The request.
        users: Number of users of one replica.
        misfits: Stages that did not fit in earlier calls, which may differ only in the number of
            wafers. New misfits are added.
    """
    if users > users_by_bytes(prepared_estimate):
        return None
    p = with_room(prepared_estimate, users)
    if needs_compiled_room(p):
        tokens = p.tokens_per_user
        return next(
            (
                trial
                for found in search_for_room(prepared_estimate, users)
                for (trial, _), candidate in zip(found.compiled_trials, found.candidates, strict=True)
                if users_at(candidate.program, tokens) >= users
            ),
            None,
        )
    try:
        return fitting_trial(p.spec, p.wafer, p.software, p.options, misfits)
    except (BadInput, DoesNotFit):
        return None


def needs_compiled_room(prepared_estimate: PreparedEstimate) -> bool:
    """Return whether the room of a layout is known only after it is fully compiled.

    Trials reserve memory for whole KV caches of the request's context.
    """
    options = prepared_estimate.options
    return options.context > prepared_estimate.tokens_per_user or options.prefix_tokens > 0


def max_users_with_room(prepared_estimate: PreparedEstimate, room: int, users: int) -> int:
    """Find the maximum number of users of one replica whose KV caches fit on some layout.

    Args:
        prepared_estimate: The request.
        room: Number of users whose caches are known to fit, where the search starts.
        users: Larger number of users, which is not tried.
    """
    return (
        largest_passing(
            room,
            min(users, users_by_bytes(prepared_estimate) + 1),
            lambda n: n == room or trial_with_room(prepared_estimate, n) is not None,
        )
        or room
    )


def on_more_wafers(prepared_estimate: PreparedEstimate, goal: Goal) -> PreparedEstimate | None:
    """Return a request for more wafers: the fewest on which the KV caches of all users fit.

    If users pause, they may wait for room, so that room for a single one is enough.

    Args:
        prepared_estimate: The request. Its own number of wafers is too small.
        goal: Number of users, and of replicas that share them.

    Returns:
        A copy of the request for more wafers. None if the request or its mapping file states the
        number of wafers, or if no number of wafers is large enough.
    """
    p = prepared_estimate
    if not may_add_wafers(p) or goal.users is None:
        return None
    users = 1 if p.shape.think_s else math.ceil(goal.users / goal.replicas_for(goal.users))
    min_wafers = max(p.options.wafers + 1, wafers_by_bytes(p, users))
    misfits = Misfits()
    for wafers in range(min_wafers, max_wafer_count(p.spec) + 1):
        larger = prepare_estimate(replace(p.request, wafers=wafers))
        if trial_with_room(larger, users, misfits) is not None:
            return replace(larger, request=p.request)
    return None


def may_add_wafers(prepared_estimate: PreparedEstimate) -> bool:
    """Return whether the number of wafers may be increased.

    It may not if the request or its mapping file states the number.
    """
    return prepared_estimate.request.wafers is None and not prepared_estimate.options.listed


def with_room(prepared_estimate: PreparedEstimate, users: int) -> PreparedEstimate:
    """Return a copy of a request that accepts only layouts with room for a number of users.

    If the request already requires more room, this requirement is kept.
    """
    options = prepared_estimate.options
    tokens = options.cache_tokens_of(users, prepared_estimate.tokens_per_user)
    return replace(prepared_estimate, options=replace(options, cache_tokens=max(tokens, options.cache_tokens)))


def with_trials(
    prepared_estimate: PreparedEstimate, compilation: Compilation, searches: Iterable[Compilation]
) -> Compilation:
    """Add the layouts that other searches tried to the result of one search of the same request.

    A report can then list all layouts that were tried. The chosen layout is the first of the fully
    compiled layouts. A layout that several searches tried is listed once, with the numbers of the
    first of these searches.

    Args:
        prepared_estimate: The request.
        compilation: Result of the search that found the chosen layout.
        searches: Results of all searches; the first found the chosen layout.

    Returns:
        A copy of ``compilation`` with the layouts of all searches.
    """
    chosen_trial = compilation.compiled_trials[0][0]
    compiled: dict[tuple[Layout, str], tuple[Trial, float]] = {}
    trials: dict[tuple[Layout, str], Trial] = {}
    for search in searches:
        trials = {trial.key: trial for trial in search.trials} | trials
        for (trial, cycles), candidate in zip(search.compiled_trials, search.candidates, strict=True):
            if trial.key not in compiled:
                if cycles is None:  # a search that compiled one layout alone compares no cycles
                    cycles = request_cycles(prepared_estimate, candidate.program)
                compiled[trial.key] = trial, cycles
    trials |= {key: trial for key, (trial, _) in compiled.items()}
    ordered = sorted(compiled.values(), key=lambda pair: pair[0] is not chosen_trial)
    return replace(compilation, trials=tuple(trials.values()), compiled_trials=tuple(ordered))
