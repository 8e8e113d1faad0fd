"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Final

from wse.compiler.search.search import Compilation
from wse.serving.goal import LATENCY, Goal
from wse.studies.compile.layout_changes import (
    Change,
    longer_chunks,
    planned_for_more_users,
    shorter_chunks,
    variants,
)
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, Rank
from wse.studies.estimate.layouts.layout_versions import Effect, LayoutVersions, more_slots
from wse.studies.estimate.prepare import PreparedEstimate

IMPROVED: Final = 2
"""Number of layouts per search to compile with more users per pass and longer prompt chunks."""
MOST_SLOTS: Final = 256
"""Maximum number of users per pass."""
SLACK: Final = 1.1
"""Factor by which the deciding number of an optimistic guess may exceed that of the best layout.

A guess has better times or more room than most real versions. It is not a strict bound: a version
with less room or longer chunks may meet a latency limit more easily.
"""
DURATIONS: Final = ("token_s", "stage_s", "prompt_s", "chunk_s", "delay_s")
"""Fields of `WaferDeployment` that are durations."""


def improved_layouts(
    prepared_estimate: PreparedEstimate,
    searches: Sequence[Compilation],
    known_versions: LayoutVersions,
    goal: Goal,
) -> list[CompiledLayout]:
    """Return the layouts found by the searches, and improved versions of them, best first.

    For each search:

    1. Compile versions of each layout that leave more room for KV caches: variants, regions sized
       for the KV caches of more users, and prompt chunks of half the length. Keep the best, and
       repeat this until no change improves the rank.
    2. Do the same with the `IMPROVED` best results and two other changes: double the users per pass
       (unless the request fixes them), and double the prompt chunks. After the users per pass are
       doubled, chunks and planned KV caches are adjusted.

    To save time, most versions are not compiled. The room of a version is known from its reduced
    model. Its durations are guessed (`_guess`). A version is compiled only if this guess ranks before
    the best version of the layout so far. A layout is improved only if some version of it may rank
    before the best known layout, or if its deciding number may be at most 10 % worse (`SLACK`).

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
    improvement, known_layouts = _Improvement(prepared_estimate, known_versions, goal), set[CompiledLayout]()
    for layouts in layouts_of_searches:
        new_layouts = [layout for layout in layouts if layout not in known_layouts]
        known_layouts.update(new_layouts)
        best_versions = sorted(map(improvement.with_best_room, new_layouts), key=improvement.rank)  # 1
        for layout in best_versions[:IMPROVED]:
            improvement.try_larger_passes(layout)  # 2
    return sorted(known_versions, key=improvement.rank)


class _Improvement:
    """Local search for better versions of layouts, for one goal."""

    def __init__(self, prepared_estimate: PreparedEstimate, known_versions: LayoutVersions, goal: Goal) -> None:
        """Set up an improvement with the arguments of `improved_layouts`."""
        self._versions, self._goal = known_versions, goal
        self._has_free_slots = prepared_estimate.request.serving.batch is None
        max_users = goal.users if goal.replicas is not None and goal.users_may_wait else None
        self.rank: Callable[[CompiledLayout], Rank] = cache(lambda layout: layout.rank(goal, max_users))

    def with_best_room(self, layout: CompiledLayout) -> CompiledLayout:
        """Return the best version found by making room for KV caches and halving chunks (step 1)."""
        max_room = self._versions.max_room(layout.version)
        if not self._may_be_best(layout, max_room, chunk_s=[layout.deployment.chunk_s, 0.0], delay_s=[0.0]):
            return layout
        return self._climb(
            layout,
            partial(self._with_change, variants, min_ratio=1.0),
            partial(self._with_change, planned_for_more_users),
            partial(self._with_change, shorter_chunks),
        )

    def try_larger_passes(self, layout: CompiledLayout) -> None:
        """Compile versions of a layout with more users per pass, and with longer prompt chunks (step 2)."""
        changes: list[Callable[[CompiledLayout, CompiledLayout], CompiledLayout]]
        changes, slots = [partial(self._with_change, longer_chunks)], [layout.deployment.slots]
        if self._has_free_slots:
            changes.insert(0, self._with_more_slots)
            slots.append(MOST_SLOTS)
        max_room = self._versions.max_room(layout.version)
        if self._may_be_best(layout, max_room, slots=slots, prompt_s=[layout.deployment.prompt_s / 2]):
            self._climb(layout, *changes)

    def _may_be_best(self, layout: CompiledLayout, max_room: int, **numbers: Sequence[float]) -> bool:
        """Return whether a changed layout may be better than the best known layout, or nearly.

        Guesses with all combinations of some numbers are compared.

        Args:
            layout: The layout that would be changed.
            max_room: Maximum room for KV caches after changes. The present room is tried, too.
            numbers: Values to try, keyed by field of `WaferDeployment`.
        """
        numbers = {"max_concurrency": [layout.deployment.max_concurrency, max_room], **numbers}
        guesses = (
            layout.with_numbers(**dict(zip(numbers, values, strict=True))) for values in product(*numbers.values())
        )
        return any(map(self._is_promising, guesses))

    def _is_promising(self, guess: CompiledLayout) -> bool:
        """Return whether a guess ranks before the best known layout, or misses it by at most `SLACK`."""
        misses_limits, value, request_s = min(map(self.rank, self._versions))
        guess_misses_limits, guess_value, guess_s = self.rank(guess)
        if self._goal.objective == LATENCY and not misses_limits:  # the value is a number of replicas
            return (guess_misses_limits, guess_value, guess_s) < (False, value, SLACK * request_s)
        return (guess_misses_limits, guess_value) < (misses_limits, SLACK * value)

    def _climb(
        self, layout: CompiledLayout, *changes: Callable[[CompiledLayout, CompiledLayout], CompiledLayout]
    ) -> CompiledLayout:
        """Apply the best one of some changes to a layout, repeatedly, until none of them improves it.

        Args:
            layout: Layout to start with.
            changes: Functions that change their first argument, and return the better of the result
                and their second argument.

        Returns:
            The best layout.
        """
        while True:
            best = layout
            for change in changes:
                best = change(layout, best)
            if best is layout:
                return best
            layout = best

    def _with_change(
        self,
        change: Change[PreparedEstimate],
        layout: CompiledLayout,
        best: CompiledLayout,
        *,
        min_ratio: float = 0.5,
    ) -> CompiledLayout:
        """Compile the versions of a layout after a change that may be better than another layout.

        Args:
            change: Function that returns the versions.
            layout: The layout to change.
            best: The other layout.
            min_ratio: Smallest assumed ratio of a duration after the change to that before it.

        Returns:
            The best of the compiled versions and the other layout.
        """
        effect = None if change is variants else self._versions.effect(change, layout)  # variants differ too much
        for version in change(layout.version):
            guess = _guess(layout, self._versions.room(version), effect, min_ratio)
            if version not in self._versions and self.rank(guess) >= self.rank(best):
                continue
            new_layout = self._versions.compiled(version, layout)
            if new_layout is not None:
                self._versions.add_effect(change, Effect(layout, new_layout))
                best = min(best, new_layout, key=self.rank)
        return best

    def _with_more_slots(self, layout: CompiledLayout, best: CompiledLayout) -> CompiledLayout:
        """Compile a version with twice the users per pass, and adjust chunks and planned KV caches.

        If a pass for twice the users does not fit, prompt chunks are shortened until it fits.

        Returns:
            The better of the adjusted version and ``best``.
        """
        deployment, goal = layout.deployment, self._goal
        room = deployment.max_concurrency
        requests = room if goal.requests is None else math.ceil(goal.requests / goal.replicas_for(room))
        if 2 * deployment.slots > min(requests, room, MOST_SLOTS):
            return best
        versions = [more_slots(layout.version)]
        while versions and not self._versions.room(versions[0]):
            versions = shorter_chunks(versions[0])
        if not versions:
            return best
        guess = _guess(
            layout, self._versions.max_room(versions[0]), self._versions.effect(more_slots, layout), 1.0
        ).with_numbers(slots=2 * deployment.slots)
        if versions[0] not in self._versions and not self._may_be_adjusted(guess, guess.deployment.max_concurrency):
            return best
        wide_layout = self._versions.compiled(versions[0], layout)
        if wide_layout is None:
            return best
        self._versions.add_effect(more_slots, Effect(layout, wide_layout))
        if self._may_be_adjusted(wide_layout, self._versions.max_room(versions[0])):
            changes = planned_for_more_users, shorter_chunks, longer_chunks
            wide_layout = self._climb(wide_layout, *(partial(self._with_change, change) for change in changes))
        return min(best, wide_layout, key=self.rank)

    def _may_be_adjusted(self, layout: CompiledLayout, max_room: int) -> bool:
        """Return whether a layout may be the best after its chunks and planned KV caches are adjusted."""
        deployment = layout.deployment
        return self._may_be_best(
            layout,
            max_room,
            prompt_s=[deployment.prompt_s / 2],
            chunk_s=[deployment.chunk_s, 0.0],
            delay_s=[deployment.delay_s, 0.0],
        )


def _guess(
    layout: CompiledLayout,
    room: int,
    effect: Effect | None,
    min_ratio: float,
) -> CompiledLayout:
    """Return a guess of a layout after a change.

    If the effect of the change on a similar layout is known, each duration is assumed to change by
    the same amount. Otherwise, all durations are multiplied by ``min_ratio``. The guess is usually
    optimistic: when chunks of llama-3.1-70b on 8 wafers were halved twice, the second improvement of
    each duration was 0.36 to 0.53 times the first, and deteriorations about doubled.

    Args:
        layout: The layout that would be changed.
        room: Users whose KV caches fit after the change.
        effect: A similar layout before and after the same change, or None.
        min_ratio: Smallest assumed ratio of a duration after the change to that before it.
    """

    def duration_s(name: str) -> float:
        """Return the guess of a duration in seconds."""
        unchanged_s = float(getattr(layout.deployment, name))
        if effect is None:
            return min_ratio * unchanged_s
        old_s, new_s = (float(getattr(similar_layout.deployment, name)) for similar_layout in effect)
        return max(min_ratio * unchanged_s, unchanged_s + new_s - old_s)

    return layout.with_numbers(max_concurrency=room, **{name: duration_s(name) for name in DURATIONS})
