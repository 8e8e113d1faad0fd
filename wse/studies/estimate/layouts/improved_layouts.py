"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Final

from wse.compiler.choice import Choice
from wse.compiler.search.search import Compilation
from wse.serving.deployment.wafers import WaferDeployment
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
REPEATED_GAIN: Final = 0.5
"""Assumed maximum improvement of a number by a change, relative to the same change before.

Room is linear in the length of a chunk, so halving chunks again frees half as many bytes. In 16
pairs of changes of llama-3.1-70b on 8 wafers, improvements were multiplied by 0.36 to 0.53, and
deteriorations by 1.7 to 2.1.
"""


def improved_layouts(
    prepared_estimate: PreparedEstimate,
    searches: Sequence[Compilation],
    known_versions: LayoutVersions,
    goal: Goal,
) -> list[CompiledLayout]:
    """Return the layouts found by the searches, and improved versions of them, best first.

    For each search, except for layouts that differ from layouts of earlier searches only in what
    versions change:

    1. Compile the variants of each layout that leave more room for KV caches. Then divide the
       regions of the layout or of its best variant for the KV caches of more users, or halve the
       prompt chunks, whichever is better, as long as one of the two improves the rank.
    2. Double the users per pass of the `IMPROVED` best versions (unless the request fixes them) or
       their prompt chunks, whichever is better, as long as one of the two improves them.

    A version is compiled only if an optimistic guess ranks before the best known layout, with its
    deciding number multiplied by `SLACK`. A guess is the unchanged layout with these numbers
    replaced:

    - step 1, variants: room for as many KV caches as fit by bytes
    - step 1, other changes: a ``delay_s`` of 0, the unchanged or the maximum room, and the
      unchanged ``chunk_s`` or 0
    - step 2: half of ``prompt_s``, and the unchanged number of users per pass or `MOST_SLOTS`

    For a goal with a number of replicas, users may have to wait for KV-cache space, if the goal
    allows it. A fast layout with little space can serve all users sooner than a slow one.

    Args:
        prepared_estimate: The request, for which the searches were made.
        searches: Results of searches.
        known_versions: Versions of layouts that are compiled already. New ones are added.
        goal: Users, limits and objective by which layouts are ranked.
    """
    layouts_of_searches = [
        [
            known_versions.add(prepared_estimate, candidate, result, number)
            for number, candidate in enumerate(result.candidates)
        ]
        for result in searches
    ]
    improvement, improved_choices = _Improvement(prepared_estimate, known_versions, goal), set[Choice]()
    for layouts in layouts_of_searches:
        new_layouts = [layout for layout in layouts if _fixed_choices(layout) not in improved_choices]
        improved_choices.update(map(_fixed_choices, new_layouts))
        best_versions = sorted(map(improvement.with_best_room, new_layouts), key=improvement.rank)  # 1
        for layout in best_versions[:IMPROVED]:
            improvement.try_larger_passes(layout)  # 2
    return sorted(known_versions, key=improvement.rank)


def _fixed_choices(layout: CompiledLayout) -> Choice:
    """Return the compiler choices that all versions of a layout share, with the others set to constants."""
    return replace(layout.choice, prefill_chunk=1, head_chunk=1, trees=(), attention_cols=0)


class _Improvement:
    """Compilation of versions of layouts, as long as they serve the users of a goal better."""

    def __init__(self, prepared_estimate: PreparedEstimate, known_versions: LayoutVersions, goal: Goal) -> None:
        """Set up an improvement with the arguments of `improved_layouts`."""
        self._versions, self._goal = known_versions, goal
        self._has_free_slots = prepared_estimate.request.serving.batch is None
        self._max_room = users_by_bytes(prepared_estimate)
        max_users = goal.users if goal.replicas is not None and goal.users_may_wait else None
        self.rank = cache(lambda layout: layout.rank(goal, max_users))

    def _may_be_best(self, layout: CompiledLayout, **numbers: Sequence[float]) -> bool:
        """Return whether an optimistic guess is better than the best known layout, or nearly.

        Args:
            layout: The layout that is changed.
            numbers: Values to try, keyed by field of `WaferDeployment`. All combinations are tried.
        """
        misses_limits, value, _ = min(map(self.rank, self._versions))
        guesses = (
            layout.with_numbers(**dict(zip(numbers, values, strict=True))) for values in product(*numbers.values())
        )
        return any(self.rank(version)[:2] < (misses_limits, SLACK * value) for version in guesses)

    def with_best_room(self, layout: CompiledLayout) -> CompiledLayout:
        """Return the best version of a layout with other room for KV caches (step 1)."""
        versions = [layout]
        if self._may_be_best(layout, max_concurrency=[self._max_room]):
            versions += self._versions.variants(layout)
        best = min(versions, key=self.rank)
        room, chunk_s = best.deployment.max_concurrency, best.deployment.chunk_s
        if not self._may_be_best(best, max_concurrency=[room, self._max_room], chunk_s=[chunk_s, 0.0], delay_s=[0.0]):
            return best
        return _while_better(
            best, [self._versions.planned_for_more_users, self._versions.with_shorter_chunks], self.rank
        )

    def try_larger_passes(self, layout: CompiledLayout) -> None:
        """Compile versions of a layout with more users per pass, and with longer prompt chunks (step 2)."""
        slots, prompt_s = layout.deployment.slots, layout.deployment.prompt_s / 2
        if self._may_be_best(layout, slots=[slots, MOST_SLOTS], prompt_s=[prompt_s]):
            changes = [self._versions.with_longer_chunks]
            _while_better(layout, [self._with_more_slots, *changes] if self._has_free_slots else changes, self.rank)

    def _with_more_slots(self, layout: CompiledLayout) -> CompiledLayout | None:
        """Return a version for twice as many users per pass, with the best chunks and room for them.

        If such a pass does not fit with the chunks of the layout, shorter chunks are tried.
        """
        versions = self._versions
        wide_layout = versions.with_more_slots(layout, self._goal)
        if wide_layout is None:
            with_shorter_chunks = versions.with_shorter_chunks(layout)
            if with_shorter_chunks is not None:
                wide_layout = versions.with_more_slots(with_shorter_chunks, self._goal)
        if wide_layout is None:
            return None
        changes = [versions.planned_for_more_users, versions.with_shorter_chunks, versions.with_longer_chunks]
        return _while_better(wide_layout, changes, self.rank)


def _while_better(
    layout: CompiledLayout,
    changes: Sequence[Callable[[CompiledLayout], CompiledLayout | None]],
    rank: Callable[[CompiledLayout], Rank],
) -> CompiledLayout:
    """Apply the best one of some changes to a layout, repeatedly, until none of them improves it.

    A change that was made before is only made if an optimistic guess of its effect
    (`_after_repeated_change`) improves the layout.

    Args:
        layout: Layout to start with.
        changes: Functions that return the changed layout, or None if the change is impossible.
        rank: Function that returns the sort key of a layout; a better layout has a smaller key.

    Returns:
        The best layout.
    """
    latest_effects: dict[int, tuple[WaferDeployment, WaferDeployment]] = {}  # old and new numbers, by change
    while True:
        best = layout
        for number, change in enumerate(changes):
            effect = latest_effects.get(number)
            if effect is not None and rank(_after_repeated_change(layout, *effect)) >= rank(layout):
                continue
            changed_layout = change(layout)
            if changed_layout is not None:
                latest_effects[number] = layout.deployment, changed_layout.deployment
                best = min(best, changed_layout, key=rank)
        if best is layout:
            return best
        layout = best


def _after_repeated_change(
    layout: CompiledLayout, old_deployment: WaferDeployment, new_deployment: WaferDeployment
) -> CompiledLayout:
    """Return an optimistic guess of a layout after a change whose effect on a similar layout is known.

    Each number changes by as much as before, or by `REPEATED_GAIN` times as much if it improves. No
    duration falls by more than half, because a change at most doubles chunks or users per pass.

    Args:
        layout: The layout that would be changed.
        old_deployment, new_deployment: The similar layout before and after the same change.
    """
    deployment = layout.deployment

    def duration_s(name: str) -> float:
        """Return the guess of a duration in seconds."""
        deployments = deployment, old_deployment, new_deployment
        layout_s, old_s, new_s = (float(getattr(numbers, name)) for numbers in deployments)
        return max(layout_s / 2, layout_s + (new_s - old_s) * (REPEATED_GAIN if new_s < old_s else 1.0))

    room = new_deployment.max_concurrency - old_deployment.max_concurrency
    return layout.with_numbers(
        **{name: duration_s(name) for name in ("token_s", "stage_s", "prompt_s", "chunk_s", "delay_s")},
        slots=deployment.slots * new_deployment.slots // old_deployment.slots,
        max_concurrency=max(0, deployment.max_concurrency + math.ceil(room * (REPEATED_GAIN if room > 0 else 1.0))),
    )
