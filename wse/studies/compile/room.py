"""Choice between nearly fastest layouts: the one with the most room for KV caches.

A search finds the fastest layouts for one user. This module also compiles changed layouts with more
room, some of which are even faster: the search sizes regions for the KV caches of one user, and
chooses prompt chunks on a reduced model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.choice import Rewrites
from wse.compiler.pipeline import with_tiles
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.search import Candidate, Compilation
from wse.compiler.search.trials.trial import MARGIN
from wse.program.program import Program
from wse.studies.compile.layout_changes import (
    Change,
    Version,
    longer_chunks,
    planned_for_more_users,
    recompiled,
    shorter_chunks,
    users_that_fit,
    variants,
)
from wse.studies.options.basis import PreparedPlacement
from wse.studies.results.sram import users_at


class _Layout(NamedTuple):
    """A compiled layout.

    Attributes:
        candidate: The layout.
        finalist: Index, in the result of the search, of this layout or of the one it was derived from.
        cycles: Cycles of a request.
        users: Number of users whose KV caches fit.
    """

    candidate: Candidate
    finalist: int
    cycles: float
    users: int


def with_most_room(
    prepared_placement: PreparedPlacement, compilation: Compilation, cycles: Callable[[Program], float]
) -> Compilation:
    """Choose, among the nearly fastest layouts, the one with the most room for KV caches.

    A layout is nearly fastest if a request takes at most 1 + `MARGIN` times as many cycles on it as
    on the fastest layout.

    1. Start with the fastest layout of the search. Compile versions of it on which more users' caches
       fit: with regions sized for more users, and with shorter prompt chunks. Of all layouts so far
       that are nearly fastest, take the one with the most room, and repeat with it. Stop when this
       is the same layout as before.
    2. Compile the versions of this layout that `variants` lists, and choose again.
    3. If longer prompt chunks did not fit on the fastest layout of the search, but do on this one,
       compile this layout with them, and choose again. They may save more cycles than `MARGIN`.

    Args:
        prepared_placement: The request.
        compilation: Result of a search for the fastest layouts, fastest first.
        cycles: Function that returns the cycles of a request on a compiled layout.
    """
    tokens = prepared_placement.tokens_per_user

    def measured_layout(candidate: Candidate, finalist: int) -> _Layout:
        """Return a layout with its speed and its room."""
        return _Layout(candidate, finalist, cycles(candidate.program), users_at(candidate.program, tokens))

    def version_of(layout: _Layout) -> Version[PreparedPlacement]:
        """Return a layout in the form that changes take."""
        return Version(prepared_placement, layout.candidate.options, layout.candidate.choice)

    def compile_changes(layout: _Layout, min_users: int, *changes: Change[PreparedPlacement]) -> list[_Layout]:
        """Compile the changed versions of a layout on which the KV caches of ``min_users`` fit."""
        versions = [changed_version for change in changes for changed_version in change(version_of(layout))]
        candidates = map(recompiled, (v for v in versions if users_that_fit(v, tokens) >= min_users))
        return [measured_layout(candidate, layout.finalist) for candidate in candidates if candidate is not None]

    def fits_longer_chunks(layout: _Layout) -> bool:
        """Return whether a layout with prompt chunks of twice as many tokens fits in SRAM."""
        return any(users_that_fit(version, tokens) for version in longer_chunks(version_of(layout)))

    layouts = [measured_layout(candidate, finalist) for finalist, candidate in enumerate(compilation.candidates)]
    best, previous_best = layouts[0], None
    while best is not previous_best:  # 1
        layouts += compile_changes(best, best.users + 1, planned_for_more_users, shorter_chunks)
        previous_best, best = best, _roomiest(layouts)
    layouts += compile_changes(best, best.users + 1, variants)  # 2
    best = _roomiest(layouts)
    if best is not layouts[0] and not fits_longer_chunks(layouts[0]):  # 3
        layouts += compile_changes(best, 1, longer_chunks)
        best = _roomiest(layouts)
    if best is layouts[0]:
        return compilation
    return with_chosen(prepared_placement, compilation, best.candidate, best.finalist, best.cycles)


def _roomiest(layouts: list[_Layout]) -> _Layout:
    """Return the layout with the most room among the nearly fastest; the fastest if several have it."""
    max_cycles = (1 + MARGIN) * min(layout.cycles for layout in layouts)
    nearly_fastest = (layout for layout in layouts if layout.cycles <= max_cycles)
    return max(nearly_fastest, key=lambda layout: (layout.users, -layout.cycles))


def _used_rewrites(trials: Sequence[RewriteTrial], rewrites: Rewrites) -> tuple[RewriteTrial, ...]:
    """Return the rewrites of a layout, with the cycles that they save if these are recorded.

    Args:
        trials: Rewrites of the layout that a search has chosen, with their cycles.
        rewrites: Names and settings of the rewrites of another layout.
    """
    saved_cycles = {(trial.name, trial.setting): trial.saved_cycles for trial in trials}
    return tuple(
        RewriteTrial(name=name, setting=setting, saved_cycles=saved_cycles.get((name, setting)))
        for name, setting in rewrites
    )


def with_chosen(
    prepared_placement: PreparedPlacement,
    compilation: Compilation,
    candidate: Candidate,
    finalist: int,
    cycles: float | None = None,
) -> Compilation:
    """Return a copy of the result of a search in which another layout is the chosen one.

    The layout and its record are moved to the front of the fully compiled layouts.

    Args:
        prepared_placement: The request.
        compilation: Result of the search.
        candidate: The layout to choose: one that the search found, or one derived from it.
        finalist: Index, in the records of fully compiled layouts, of this layout or of the one from
            which it is derived.
        cycles: Cycles of a request on the layout; None to leave those in the record unchanged.
    """
    p, (program, options, choice) = prepared_placement, candidate
    records, candidates = [*compilation.compiled_trials], [*compilation.candidates]
    trial, recorded_cycles = records.pop(finalist)
    candidates.pop(finalist)
    return replace(
        compilation,
        program=with_tiles(program, p.spec, p.wafer, p.software, options, choice),
        options=options,
        choice=choice,
        rewrites=_used_rewrites(compilation.rewrites, choice.rewrites),
        verify_rewrites=None
        if compilation.verify_rewrites is None
        else _used_rewrites(compilation.verify_rewrites, choice.rewrites_of_verification),
        compiled_trials=((trial, recorded_cycles if cycles is None else cycles), *records),
        candidates=(candidate, *candidates),
    )
