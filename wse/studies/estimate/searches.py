"""The searches whose layouts compete to serve a number of users, and the trials of all of them in one table.

The layouts with the shortest request are often on a part of each wafer. Layouts on all of it may take longer for one
user, but have room for more caches, read prompts faster and work on more users at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from wse.compiler.search.search import Breadth, Compilation
from wse.compiler.search.trial import Trial
from wse.errors import BadInput, DoesNotFit
from wse.request.prepare_estimate import PreparedEstimate
from wse.serving.goal import Goal
from wse.studies.compile.choose import compile_fastest, request_cycles
from wse_mappings.strategies.strategy import Layout

FASTEST: Final = Breadth(finalists=2, margin=1.0, on_whole=2)
"""The two fastest layouts for one user, and the two fastest of others that are on all of each wafer."""
MANY_USERS: Final = Breadth(finalists=4, margin=math.inf, many_users=True)
"""The four layouts with the fewest cycles for each of the users that they serve at once."""

Search = Callable[[PreparedEstimate, Breadth], Compilation]
"""A search for the layouts of a request, as wide as is asked for."""


def searches_for(prepared: PreparedEstimate, search: Search, goal: Goal) -> list[Compilation]:
    """Return the search for the fastest layouts, and that for layouts that serve many users at once.

    Args:
        prepared: The request.
        search: What finds the fastest layouts, and says why none fits.
        goal: What the layouts are for; one user has no use for the second search.

    Raises:
        DoesNotFit: the model does not fit.
    """
    fastest = search(prepared, FASTEST)
    if goal.users is not None and goal.users <= (goal.replicas or 1):
        return [fastest]
    try:
        return [fastest, compile_fastest(prepared, MANY_USERS)]
    except (BadInput, DoesNotFit):  # all that fit are on parts of the mesh
        return [fastest]


def with_trials(prepared: PreparedEstimate, compilation: Compilation, searches: Iterable[Compilation]) -> Compilation:
    """Return a compilation with the trials of all searches of a request; the chosen one is the first that was compiled.

    Args:
        prepared: The request.
        compilation: What was chosen, with the trials of its own search.
        searches: All searches, its own first. A layout that several of them tried has the trial of the first.
    """
    chosen = compilation.compiled[0][0]
    compiled: dict[tuple[Layout, str], tuple[Trial, float]] = {}
    trials: dict[tuple[Layout, str], Trial] = {}
    for search in searches:
        trials = {one.key: one for one in search.trials} | trials
        for (trial, cycles), candidate in zip(search.compiled, search.candidates, strict=True):
            if trial.key not in compiled:
                if cycles is None:  # a search that compiled one layout alone compares no cycles
                    cycles = request_cycles(prepared, candidate.program)
                compiled[trial.key] = trial, cycles
    trials |= {key: trial for key, (trial, _) in compiled.items()}
    ordered = sorted(compiled.values(), key=lambda one: one[0] is not chosen)
    return replace(compilation, trials=tuple(trials.values()), compiled=tuple(ordered))
