"""Improved versions of the layouts that searches have found, ranked by a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Final

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

A guess has better times or more room than most real versions. It is not a strict bound: a version
with less room or longer chunks may meet a latency limit more easily.
"""


def improved_layouts(
    prepared_estimate: PreparedEstimate,
    searches: Sequence[Compilation],
    known_versions: LayoutVersions,
    goal: Goal,
) -> list[CompiledLayout]:
    """Return the layouts found by the searches, and improved versions of them, best first.

    For each search:

    1. Compile the variants of each layout that leave more room for KV caches, and keep the best.
       Then try two changes: plan for the KV caches of more users, and halve the prompt chunks. Keep
       the better result. Repeat this until neither change improves the rank.
    2. Do the same with the `IMPROVED` best results and two other changes: double the users per pass
       (unless the request fixes them), and double the prompt chunks. After the users per pass are
       doubled, chunks and planned KV caches are adjusted.

    A version is compiled only if an optimistic guess ranks before the best known layout, with its
    deciding number multiplied by `SLACK`. A guess is the unchanged layout with these numbers
    replaced:

    - step 1, variants: room for as many KV caches as fit by bytes
    - step 1, other changes: a ``delay_s`` of 0, the unchanged or the maximum room, and the
      unchanged ``chunk_s`` or 0
    - step 2: half of ``prompt_s``, the unchanged or the maximum room, and the unchanged number of
      users per pass or `MOST_SLOTS`

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
        """Return the best version found by changing the room for KV caches and halving chunks (step 1)."""
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
        deployment, changes = layout.deployment, [self._versions.with_longer_chunks]
        slots = [deployment.slots]
        if self._has_free_slots:
            changes.insert(0, self._with_more_slots)
            slots.append(MOST_SLOTS)
        room = [deployment.max_concurrency, self._max_room]
        if self._may_be_best(layout, slots=slots, max_concurrency=room, prompt_s=[deployment.prompt_s / 2]):
            # Chunks are adjusted to each number of users per pass, so the effects of two doublings differ.
            _while_better(layout, changes, self.rank, guess_effects=False)

    def _with_more_slots(self, layout: CompiledLayout) -> CompiledLayout | None:
        """Return a version with twice the users per pass, after adjusting chunks and planned KV caches.

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
    *,
    guess_effects: bool = True,
) -> CompiledLayout:
    """Apply the best one of some changes to a layout, repeatedly, until none of them improves it.

    Args:
        layout: Layout to start with.
        changes: Functions that return the changed layout, or None if the change is impossible.
        rank: Function that returns the sort key of a layout; a better layout has a smaller key.
        guess_effects: True to try a change again only if a guess (`_after_repeated_change`) ranks
            better than the current layout.

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
                if guess_effects:
                    latest_effects[number] = layout.deployment, changed_layout.deployment
                best = min(best, changed_layout, key=rank)
        if best is layout:
            return best
        layout = best


def _after_repeated_change(
    layout: CompiledLayout, old_deployment: WaferDeployment, new_deployment: WaferDeployment
) -> CompiledLayout:
    """Return a guess of a layout after a change whose effect on a similar layout is known.

    Each number is assumed to change by the same amount, but no duration by more than half. The guess
    is usually optimistic: when chunks of llama-3.1-70b on 8 wafers were halved twice, the second
    improvement of each number was 0.36 to 0.53 times the first, and deteriorations about doubled.

    Args:
        layout: The layout that would be changed.
        old_deployment, new_deployment: The similar layout before and after the same change.
    """
    deployment = layout.deployment

    def duration_s(name: str) -> float:
        """Return the guess of a duration in seconds."""
        deployments = deployment, old_deployment, new_deployment
        layout_s, old_s, new_s = (float(getattr(numbers, name)) for numbers in deployments)
        return max(layout_s / 2, layout_s + new_s - old_s)

    more_room = new_deployment.max_concurrency - old_deployment.max_concurrency
    return layout.with_numbers(
        **{name: duration_s(name) for name in ("token_s", "stage_s", "prompt_s", "chunk_s", "delay_s")},
        slots=deployment.slots * new_deployment.slots // old_deployment.slots,
        max_concurrency=max(0, deployment.max_concurrency + more_room),
    )
