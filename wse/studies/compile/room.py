"""Choice between nearly fastest layouts: the one with the most room for KV caches.

A search finds the fastest layouts for one user. This module also compiles changed layouts with more
room, some of which are even faster: the search sizes regions for the KV caches of one user, and
chooses prompt chunks on a reduced model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.pipeline import with_tiles
from wse.compiler.search.search import MARGIN, Candidate, Compilation
from wse.program.program import Program
from wse.studies.compile.layout_changes import (
    Change,
    Version,
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

    1. Start with the fastest layout of the search. Compile versions of it on which more users' caches
       fit: with regions sized for more users, and with shorter prompt chunks. Continue with the
       roomiest version that is nearly fastest, until there is none.
    2. Compile the versions of the last layout that `variants` lists.
    3. Choose the nearly fastest layout with the most room, also among the others of the search.

    A layout is nearly fastest if a request takes at most 1 + `MARGIN` times as many cycles on it as
    on the fastest layout.

    Args:
        prepared_placement: The request.
        compilation: Result of a search for the fastest layouts, fastest first.
        cycles: Function that returns the cycles of a request on a compiled layout.
    """
    tokens = prepared_placement.tokens_per_user

    def measured_layout(candidate: Candidate, finalist: int) -> _Layout:
        """Return a layout with its speed and its room."""
        return _Layout(candidate, finalist, cycles(candidate.program), users_at(candidate.program, tokens))

    def roomier(layout: _Layout, *changes: Change[PreparedPlacement]) -> list[_Layout]:
        """Compile the changed versions of a layout on which the KV caches of more users fit."""
        version = Version(prepared_placement, layout.candidate.options, layout.candidate.choice)
        versions = [changed_version for change in changes for changed_version in change(version)]
        candidates = map(recompiled, (v for v in versions if users_that_fit(v, tokens) > layout.users))
        return [measured_layout(candidate, 0) for candidate in candidates if candidate is not None]

    layouts = [measured_layout(candidate, finalist) for finalist, candidate in enumerate(compilation.candidates)]
    next_layout: _Layout | None = layouts[0]
    while next_layout is not None:  # 1
        last_layout = next_layout
        versions = roomier(last_layout, planned_for_more_users, shorter_chunks)
        layouts += versions
        next_layout = max(_nearly_fastest(versions, layouts), key=_room_and_speed, default=None)
    layouts += roomier(last_layout, variants)  # 2
    best = max(_nearly_fastest(layouts, layouts), key=_room_and_speed)  # 3
    if best is layouts[0]:
        return compilation
    return with_chosen(prepared_placement, compilation, best.candidate, best.finalist, best.cycles)


def _nearly_fastest(layouts: list[_Layout], all_layouts: list[_Layout]) -> list[_Layout]:
    """Return those of some layouts that are almost as fast as the fastest of all layouts."""
    max_cycles = (1 + MARGIN) * min(layout.cycles for layout in all_layouts)
    return [layout for layout in layouts if layout.cycles <= max_cycles]


def _room_and_speed(layout: _Layout) -> tuple[int, float]:
    """Return a sort key: layouts with more room are greater, and faster ones if their room is equal."""
    return layout.users, -layout.cycles


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
        compiled_trials=((trial, recorded_cycles if cycles is None else cycles), *records),
        candidates=(candidate, *candidates),
    )
