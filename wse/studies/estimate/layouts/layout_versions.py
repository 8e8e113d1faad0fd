"""Versions of compiled layouts: more room for KV caches, other prompt chunks, more users per pass.

Some versions of a layout are slower than it but leave more room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.search.search import Candidate, Compilation
from wse.studies.compile.layout_changes import (
    Version,
    longer_chunks,
    recompiled,
    roomiest_versions,
    shorter_chunks,
    users_that_fit,
    variant_choices,
)
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, compiled_layout
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options


class Variant(NamedTuple):
    """A recompiled layout that needs more cycles but leaves more room for KV caches.

    Attributes:
        name: Description of what the compiler did differently.
        candidate: The compiled layout.
    """

    name: str
    candidate: Candidate


def variants_of(prepared_estimate: PreparedEstimate, candidate: Candidate) -> tuple[Variant, ...]:
    """Compile the variants of a layout on which the KV caches of more users fit.

    `variant_choices` lists the compiler choices that are changed.

    Args:
        prepared_estimate: The request. Users are counted with the tokens of its prompt and answer,
            and with its context.
        candidate: The compiled layout from which the variants are derived.
    """
    _, options, choice = candidate
    original = Version(prepared_estimate, options, choice)
    room = {context: users_that_fit(original, context) for context in (original.tokens, options.context)}
    variants = []
    for name, variant_choice in variant_choices(choice).items():
        version = original._replace(choice=variant_choice)
        if any(users_that_fit(version, context) > users for context, users in room.items()):
            variant = recompiled(version)
            if variant is not None:
                variants.append(Variant(name, variant))
    return tuple(variants)


def more_slots(version: Version[PreparedEstimate]) -> Version[PreparedEstimate]:
    """Return a version in which each decode pass generates tokens for twice as many users."""
    prepared_estimate = version.prepared
    prompts = (prepared_estimate.prompt_len,) * (2 * version.options.batch)
    wider_request = replace(
        prepared_estimate,
        request=replace_options(prepared_estimate.request, batch=len(prompts)),
        options=replace(prepared_estimate.options, prompt_tokens=prompts),
    )
    return version._replace(prepared=wider_request, options=replace(version.options, prompt_tokens=prompts))


class Effect(NamedTuple):
    """A layout before and after a change."""

    old_layout: CompiledLayout
    new_layout: CompiledLayout


class LayoutVersions:
    """Layouts of a request, and versions of them, with the effects of the changes that led to them.

    Each version is compiled only once, even if the layouts are ranked for several goals, or if
    several searches find them.
    """

    def __init__(self) -> None:
        """Create an empty collection of layouts."""
        self._layouts: dict[tuple[Options, Choice], CompiledLayout | None] = {}  # None: no fit or too little room
        self._room: dict[tuple[Options, Choice], int] = {}
        self._effects: dict[tuple[object, ...], list[Effect]] = defaultdict(list)

    def __iter__(self) -> Iterator[CompiledLayout]:
        """Iterate over all layouts and versions that fit."""
        return filter(None, self._layouts.values())

    def __contains__(self, version: Version[PreparedEstimate]) -> bool:
        """Return whether a version was compiled before, even if it does not fit."""
        return version.key in self._layouts

    def add(
        self, prepared_estimate: PreparedEstimate, candidate: Candidate, search_result: Compilation, finalist: int
    ) -> CompiledLayout:
        """Add a layout that a search has compiled, unless it is known, and return it.

        Args:
            prepared_estimate: The request of the search.
            candidate: The compiled layout.
            search_result: Result of the search that found the layout.
            finalist: Index of the layout among the search's fully compiled layouts.
        """
        version = Version(prepared_estimate, candidate.options, candidate.choice)
        if self._layouts.get(version.key) is None:
            self._layouts[version.key] = compiled_layout(version, lambda: candidate, search_result, finalist)
        layout = self._layouts[version.key]
        assert layout is not None  # the search has compiled it
        return layout

    def room(self, version: Version[PreparedEstimate]) -> int:
        """Return how many users' KV caches fit on a version, without compiling it fully.

        The result is 0 if the version does not fit.
        """
        if version.key not in self._room:
            self._room[version.key] = users_that_fit(version, version.tokens)
        return self._room[version.key]

    def max_room(self, version: Version[PreparedEstimate]) -> int:
        """Return the most users whose KV caches fit after changes that make room for them."""
        return max(map(self.room, roomiest_versions(version)))

    def compiled(self, version: Version[PreparedEstimate], layout: CompiledLayout) -> CompiledLayout | None:
        """Compile a version of a layout, unless it is known.

        Args:
            version: The version.
            layout: The layout from which it is derived.

        Returns:
            The compiled version. None if it does not fit, or if it has too little room for the KV
            caches for which the request reserves memory (``Options.cache_tokens``).
        """
        if version.key not in self._layouts:
            room_tokens = version.options.cache_tokens_of(self.room(version), version.tokens)
            has_room = room_tokens >= version.prepared.options.cache_tokens
            compile_version = cache(partial(recompiled, version))
            self._layouts[version.key] = (
                compiled_layout(version, compile_version, layout.search_result, layout.finalist) if has_room else None
            )
        return self._layouts[version.key]

    def add_effect(self, change: object, effect: Effect) -> None:
        """Record the effect of a change, which helps to guess the effect of similar changes."""
        self._effects[change, *_similar_key(effect.old_layout)].append(effect)

    def effect(self, change: object, layout: CompiledLayout) -> Effect | None:
        """Return the latest effect of a change of a similar layout, or None if there is none.

        Similar layouts have the same mapping, bands, regions per band, groups, expert placement and
        prefill product. They have the same users per pass or half as many. Because the effects of
        chunk sizes grow with each change, chunks must be at least as long as those of the layout for
        `shorter_chunks`, and at most as long for `longer_chunks`.

        Args:
            change: The change.
            layout: The layout that would be changed.
        """
        chunk, slots = layout.version.choice.prefill_chunk, layout.deployment.slots
        for effect in reversed(self._effects[change, *_similar_key(layout)]):
            old_chunk = effect.old_layout.version.choice.prefill_chunk
            if (
                effect.old_layout.deployment.slots in (slots, slots // 2)
                and not (change is shorter_chunks and old_chunk < chunk)
                and not (change is longer_chunks and old_chunk > chunk)
            ):
                return effect
        return None


def _similar_key(layout: CompiledLayout) -> tuple[object, ...]:
    """Return the properties of a layout that similar layouts share."""
    _, options, choice = layout.version
    return choice.layout(options.mapping), options.groups, options.experts, choice.prefill
