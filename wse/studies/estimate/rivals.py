"""Searches of single mappings, whose layouts compete with those of a search of all mappings.

A search of all mappings compiles the layouts with the shortest request. These are often on a part of each wafer.
Layouts on all of it may take longer for one pass, but have more room for caches and read prompts faster, or divide a
token among more stages. With several users they may be the better ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from wse.compiler.demand import demand_of
from wse.compiler.search.search import Breadth, Compilation
from wse.compiler.search.trial import Trial
from wse.compiler.strategies import strategies, strategy
from wse.errors import BadInput, DoesNotFit
from wse.request.prepare_estimate import PreparedEstimate
from wse.studies.compile.choose import compile_fastest, request_cycles
from wse_mappings.strategies.strategy import Layout

WIDE: Final = Breadth(finalists=4, margin=1.0)
"""The layouts that compete: the four fastest on reduced models, none of which takes twice as long as the first."""
AUTO: Final = "auto"
"""The mapping that tries all others."""


def rival_searches(prepared: PreparedEstimate) -> Iterator[tuple[PreparedEstimate, Compilation]]:
    """Yield a request with each mapping in place of one that tries all others, and what its search found.

    Mappings that do not apply to the request, or that have no layout that fits, are left out. So are mappings whose
    regions span wafers: they keep all wafers busy with one pass, and serve many users at a fraction of the rate.
    """
    if not strategy(prepared.options.mapping).tries_others:
        return
    demand = demand_of(prepared.spec, prepared.wafer, prepared.options)
    for name, rival in strategies().items():
        if rival.tries_others or rival.spans_wafers or not rival.differs(demand):
            continue
        of_rival = replace(prepared, options=replace(prepared.options, mapping=name))
        try:
            searched = compile_fastest(of_rival, WIDE)
        except (BadInput, DoesNotFit):
            continue
        yield of_rival, searched


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
