"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final

from wse.compiler.search.search import Compilation
from wse.serving.goal import Goal
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, Rank
from wse.studies.estimate.layouts.layout_versions import LayoutVersions
from wse.studies.estimate.layouts.searches import users_by_bytes
from wse.studies.estimate.prepare import PreparedEstimate

IMPROVED: Final = 2
"""Number of layouts per search to compile with more users per pass and longer prompt chunks."""


def improved_layouts(
    prepared_estimate: PreparedEstimate,
    searches: Sequence[tuple[PreparedEstimate, Compilation]],
    known_versions: LayoutVersions,
    goal: Goal,
) -> list[CompiledLayout]:
    """Return the layouts found by the searches, and improved versions of them, best first.

    For each search:

    1. If more room would make a layout better than itself and all known ones, compile its variants
       that leave more room for KV caches. Then halve the prompt chunks of the best version as
       long as this improves it. If only throughput counts (`Goal.only_throughput`), halve only
       the chunks of layouts that more room would make the best.
    2. Double the users per pass of the `IMPROVED` best versions (unless the request fixes them) or
       their prompt chunks, whichever is better, as long as one of the two improves them.

    For a goal with a number of replicas, users may have to wait for KV-cache space, if the goal
    allows it. A fast layout with little space can serve all users sooner than a slow one.

    Args:
        prepared_estimate: The request.
        searches: Results of searches, each with its own request, which differs from
            ``prepared_estimate`` only in the users per pass.
        known_versions: Versions of layouts that are compiled already. New ones are added.
        goal: Users, limits and objective by which layouts are ranked.
    """
    max_users = goal.users if goal.replicas is not None and goal.users_may_wait else None

    @cache
    def rank(layout: CompiledLayout) -> Rank:
        """Return the sort key of a layout for the goal, from a cache if possible."""
        return layout.rank(goal, max_users)

    max_room = users_by_bytes(prepared_estimate)
    layouts: dict[CompiledLayout, None] = {}
    improved_versions: list[CompiledLayout] = []
    for search_request, search_result in searches:
        # 1. Variants and shorter chunks.
        best_versions = []
        for number, candidate in enumerate(search_result.candidates):
            layout = known_versions.add(search_request, candidate, search_result, number)
            if layout in layouts:  # the other search has compiled it
                continue
            versions = [layout]
            may_be_best = rank(layout.with_room(max_room)) < min(map(rank, [layout, *layouts]))
            if may_be_best:
                versions += known_versions.variants(layout, candidate)
            if may_be_best or not goal.only_throughput:
                shorter = known_versions.with_shorter_chunks
                versions += _while_better(min(versions, key=rank), [shorter], rank)
            layouts |= dict.fromkeys(versions)
            best_versions.append(min(versions, key=rank))
        # 2. Passes over more users, and longer chunks.
        changes = [known_versions.with_longer_chunks]
        if prepared_estimate.request.serving.batch is None:
            changes.insert(0, partial(known_versions.with_more_slots, goal=goal))
        for layout in sorted(best_versions, key=rank)[:IMPROVED]:
            improved_versions += _while_better(layout, changes, rank)
    return sorted(dict.fromkeys([*layouts, *improved_versions]), key=rank)


def _while_better(
    layout: CompiledLayout,
    changes: Sequence[Callable[[CompiledLayout], CompiledLayout | None]],
    rank: Callable[[CompiledLayout], Rank],
) -> Iterator[CompiledLayout]:
    """Apply the best one of some changes to a layout, repeatedly, until none of them improves it.

    Args:
        layout: Layout to start with.
        changes: Functions that return the changed layout, or None if the change is impossible.
        rank: Function that returns the sort key of a layout; a better layout has a smaller key.

    Yields:
        Each layout that is better than the previous one.
    """
    while True:
        changed_layouts = [changed_layout for change in changes if (changed_layout := change(layout)) is not None]
        best = min([layout, *changed_layouts], key=rank)
        if best is layout:
            return
        yield best
        layout = best
