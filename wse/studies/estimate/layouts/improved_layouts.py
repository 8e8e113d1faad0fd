"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Final

from wse.compiler.search.search import Compilation
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.goal import Goal
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, Rank
from wse.studies.estimate.layouts.layout_changes import (
    MOST_SLOTS,
    Version,
    longer_chunks,
    more_slots,
    planned_for_more_users,
    shorter_chunks,
    variants,
)
from wse.studies.estimate.layouts.layout_versions import LayoutVersions
from wse.studies.estimate.prepare import PreparedEstimate
from wse_mappings.regions.layout import Layout

IMPROVED: Final = 2
"""Number of layouts per search to compile with more users per pass and longer prompt chunks."""
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
    before the best known layout.

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
        # Numbers before and after the latest change of a kind, by the change, the regions and the users per pass.
        self._effects: dict[tuple[Callable[..., object], Layout, int], tuple[WaferDeployment, WaferDeployment]] = {}

    def with_best_room(self, layout: CompiledLayout) -> CompiledLayout:
        """Return the best version found by making room for KV caches and halving chunks (step 1)."""
        if not self._may_be_best(layout, chunk_s=[layout.deployment.chunk_s, 0.0], delay_s=[0.0]):
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
        if self._may_be_best(layout, slots=slots, prompt_s=[layout.deployment.prompt_s / 2]):
            self._climb(layout, *changes)

    def _may_be_best(self, layout: CompiledLayout, **numbers: Sequence[float]) -> bool:
        """Return whether a changed layout may be better than the best known layout, or nearly.

        Guesses with all combinations of some numbers are compared. The room is that of the layout, or
        the maximum that other chunks and regions for more KV caches can give.

        Args:
            layout: The layout that would be changed.
            numbers: Values to try, keyed by field of `WaferDeployment`.
        """
        room = {layout.deployment.max_concurrency, self._versions.max_room(layout.version)}
        numbers = {"max_concurrency": list(room), **numbers}
        guesses = (
            layout.with_numbers(**dict(zip(numbers, values, strict=True))) for values in product(*numbers.values())
        )
        return any(map(self._is_promising, guesses))

    def _is_promising(self, guess: CompiledLayout) -> bool:
        """Return whether an optimistic guess is better than the best known layout, or nearly."""
        misses_limits, value, _ = min(map(self.rank, self._versions))
        guess_misses_limits, guess_value, _ = self.rank(guess)
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
        change: Callable[[Version], Sequence[Version]],
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
            min_ratio: Minimum ratio of a changed duration to the unchanged one.

        Returns:
            The best of the compiled versions and the other layout.
        """
        for version in change(layout.version):
            guess = _guess(layout, self._versions.room(version), self._effect(change, layout), min_ratio)
            compiled = self._versions.compiled(version, layout) if self.rank(guess) < self.rank(best) else None
            if compiled is not None:
                self._effects[change, *_place(layout)] = layout.deployment, compiled.deployment
                best = min(best, compiled, key=self.rank)
        return best

    def _effect(
        self, change: Callable[..., object], layout: CompiledLayout
    ) -> tuple[WaferDeployment, WaferDeployment] | None:
        """Return the numbers before and after the latest change of a kind in a similar layout.

        It has the same regions, and the same users per pass or half as many. The result is None if
        no such change was made.
        """
        regions, slots = _place(layout)
        return self._effects.get((change, regions, slots)) or self._effects.get((change, regions, slots // 2))

    def _with_more_slots(self, layout: CompiledLayout, best: CompiledLayout) -> CompiledLayout:
        """Compile a version with twice the users per pass, and adjust chunks and planned KV caches.

        If such a pass does not fit with the chunks of the layout, shorter chunks are used.

        Returns:
            The better of the adjusted version and ``best``.
        """
        deployment, goal = layout.deployment, self._goal
        room = deployment.max_concurrency
        users = room if goal.users is None else math.ceil(goal.users / goal.replicas_for(room))
        if 2 * deployment.slots > min(users, room, MOST_SLOTS):
            return best
        versions = [more_slots(layout.version)]
        while versions and not self._versions.room(versions[0]):
            versions = shorter_chunks(versions[0])
        if not versions:
            return best
        max_room = self._versions.max_room(versions[0])
        guess = _guess(layout, max_room, self._effect(more_slots, layout), 1.0)
        if not self._is_promising(guess.with_numbers(slots=2 * deployment.slots)):
            return best
        wide_layout = self._versions.compiled(versions[0], layout)
        if wide_layout is None:
            return best
        self._effects[more_slots, *_place(layout)] = deployment, wide_layout.deployment
        if self._may_be_best(wide_layout, prompt_s=[wide_layout.deployment.prompt_s / 2]):
            changes = planned_for_more_users, shorter_chunks, longer_chunks
            wide_layout = self._climb(wide_layout, *(partial(self._with_change, change) for change in changes))
        return min(best, wide_layout, key=self.rank)


def _place(layout: CompiledLayout) -> tuple[Layout, int]:
    """Return how a layout divides the wafers into regions, and its users per pass."""
    return layout.choice.layout(layout.options.mapping), layout.deployment.slots


def _guess(
    layout: CompiledLayout,
    room: int,
    effect: tuple[WaferDeployment, WaferDeployment] | None,
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
        effect: Numbers of a similar layout before and after the latest such change, or None.
        min_ratio: Minimum ratio of a changed duration to the unchanged one.
    """

    def duration_s(name: str) -> float:
        """Return the guess of a duration in seconds."""
        unchanged_s = float(getattr(layout.deployment, name))
        if effect is None:
            return min_ratio * unchanged_s
        old_s, new_s = (float(getattr(numbers, name)) for numbers in effect)
        return max(min_ratio * unchanged_s, unchanged_s + new_s - old_s)

    return layout.with_numbers(max_concurrency=room, **{name: duration_s(name) for name in DURATIONS})
