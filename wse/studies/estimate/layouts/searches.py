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
from wse.serving.goal import LATENCY, Goal
from wse.studies.compile.choose import compile_fastest, request_cycles
from wse.studies.estimate.prepare import PreparedEstimate
from wse_mappings.strategies.strategy import Layout

FASTEST: Final = Breadth(finalists=2, margin=1.0, whole_wafer_finalists=2)
"""The two fastest layouts for one user, and the two fastest others on whole wafers."""
MANY_USERS: Final = Breadth(finalists=4, margin=math.inf, many_users=True)
"""The four fastest layouts on whole wafers with as many passes in flight as they allow."""

Search = Callable[[PreparedEstimate, Breadth], Compilation]
"""A function that searches for the layouts of a request with a given `Breadth`."""


def searches_for(prepared: PreparedEstimate, search: Search, goal: Goal) -> list[Compilation]:
    """Search for the fastest layouts and, unless one user is to be served at a time, for those that serve many at once.

    Args:
        prepared: The request.
        search: The function that searches for the fastest layouts; its error says why nothing fits.
        goal: What the layouts are for.

    Raises:
        DoesNotFit: the model does not fit.
    """
    fastest = search(prepared, FASTEST)
    one_user = goal.objective == LATENCY if goal.users is None else goal.users <= (goal.replicas or 1)
    if one_user:
        return [fastest]
    try:
        return [fastest, compile_fastest(prepared, MANY_USERS)]
    except (BadInput, DoesNotFit):  # no layout on whole wafers fits
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
