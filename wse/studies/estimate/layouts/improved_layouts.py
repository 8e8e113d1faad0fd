"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Final

from wse.compiler.search.search import Compilation
from wse.serving.goal import Goal
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, Rank
from wse.studies.estimate.layouts.layout_versions import MOST_SLOTS, LayoutVersions
from wse.studies.estimate.layouts.searches import users_by_bytes
from wse.studies.estimate.prepare import PreparedEstimate

IMPROVED: Final = 2
"""Number of layouts per search to compile with more users per pass and longer prompt chunks."""
SLACK: Final = 1.1
"""Factor by which the deciding number of an optimistic guess may exceed that of the best layout.

A guess has better times or more room than any real version. It is not a strict bound, because a
version with less room or longer chunks may meet a latency limit more easily.
"""


def improved_layouts(
    prepared_estimate: PreparedEstimate,
    searches: Sequence[tuple[PreparedEstimate, Compilation]],
    known_versions: LayoutVersions,
    goal: Goal,
) -> list[CompiledLayout]:
    """Return the layouts found by the searches, and improved versions of them, best first.

    For each search:

    1. Compile the variants of each layout that leave more room for KV caches. Then halve the prompt
       chunks of the layout or of its best variant, as long as this improves the rank.
    2. Double the users per pass of the `IMPROVED` best versions (unless the request fixes them) or
       their prompt chunks, whichever is better, as long as one of the two improves them.

    A version is compiled only if an optimistic guess ranks before the best known layout, with its
    deciding number multiplied by `SLACK`. A guess is the unchanged layout with these numbers
    replaced:

    - step 1, variants: room for as many KV caches as fit by bytes
    - step 1, shorter chunks: a ``delay_s`` of 0, the unchanged or the maximum room, and the
      unchanged ``chunk_s`` or 0
    - step 2: half of ``prompt_s``, and the unchanged number of users per pass or `MOST_SLOTS`

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

    def may_be_best(layout: CompiledLayout, **numbers: Sequence[float]) -> bool:
        """Return whether an optimistic guess is better than the best known layout, or nearly.

        Args:
            layout: The layout that is changed.
            numbers: Values to try, keyed by field of `WaferDeployment`. All combinations are tried.
        """
        misses_limits, value, _ = min(map(rank, known_versions))
        optimistic = (
            layout.with_numbers(**dict(zip(numbers, values, strict=True))) for values in product(*numbers.values())
        )
        return any(rank(version)[:2] < (misses_limits, SLACK * value) for version in optimistic)

    found_layouts = [
        [
            (known_versions.add(request, candidate, result, number), candidate)
            for number, candidate in enumerate(result.candidates)
        ]
        for request, result in searches
    ]
    max_room, improved = users_by_bytes(prepared_estimate), set[CompiledLayout]()
    for layouts_of_search in found_layouts:
        # 1. Variants and shorter chunks.
        best_versions = []
        for layout, candidate in layouts_of_search:
            if layout in improved:  # an earlier search has found it, too
                continue
            improved.add(layout)
            versions = [layout]
            if may_be_best(layout, max_concurrency=[max_room]):
                versions += known_versions.variants(layout, candidate)
            best = min(versions, key=rank)
            room, chunk_s = best.deployment.max_concurrency, best.deployment.chunk_s
            if may_be_best(best, max_concurrency=[room, max_room], chunk_s=[chunk_s, 0.0], delay_s=[0.0]):
                versions += _while_better(best, [known_versions.with_shorter_chunks], rank)
            best_versions.append(min(versions, key=rank))
        # 2. Passes over more users, and longer chunks.
        changes = [known_versions.with_longer_chunks]
        if prepared_estimate.request.serving.batch is None:
            changes.insert(0, partial(known_versions.with_more_slots, goal=goal))
        for layout in sorted(best_versions, key=rank)[:IMPROVED]:
            slots, prompt_s = layout.deployment.slots, layout.deployment.prompt_s / 2
            if may_be_best(layout, slots=[slots, MOST_SLOTS], prompt_s=[prompt_s]):
                _while_better(layout, changes, rank)
    return sorted(known_versions, key=rank)


def _while_better(
    layout: CompiledLayout,
    changes: Sequence[Callable[[CompiledLayout], CompiledLayout | None]],
    rank: Callable[[CompiledLayout], Rank],
) -> list[CompiledLayout]:
    """Apply the best one of some changes to a layout, repeatedly, until none of them improves it.

    Args:
        layout: Layout to start with.
        changes: Functions that return the changed layout, or None if the change is impossible.
        rank: Function that returns the sort key of a layout; a better layout has a smaller key.

    Returns:
        The changed layouts, each better than the previous one.
    """
    better_layouts: list[CompiledLayout] = []
    while True:
        changed_layouts = [changed_layout for change in changes if (changed_layout := change(layout)) is not None]
        best = min([layout, *changed_layouts], key=rank)
        if best is layout:
            return better_layouts
        better_layouts.append(best)
        layout = best
