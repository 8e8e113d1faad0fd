"""Versions of compiled layouts: more room for KV caches, other prompt chunks, more users per pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Final

from wse.compiler.choice import Choice
from wse.compiler.options import THIN_GEMM, Options
from wse.compiler.search.search import Candidate, Compilation
from wse.serving.goal import Goal
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, compiled_layout
from wse.studies.estimate.layouts.variants import recompiled, variant_choices
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options
from wse_mappings.rounding import ceil_div

MOST_SLOTS: Final = 256
"""Maximum number of users per pass."""


class LayoutVersions:
    """Layouts of a request, and versions of them that differ in one respect.

    Each version is compiled only once, even if the layouts are ranked for several goals.
    """

    def __init__(self) -> None:
        """Create an empty collection of layouts."""
        self._layouts: dict[tuple[Options, Choice], CompiledLayout | None] = {}  # None: does not fit

    def __iter__(self) -> Iterator[CompiledLayout]:
        """Iterate over all layouts and versions that fit."""
        return filter(None, self._layouts.values())

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
        key = candidate.options, candidate.choice
        if self._layouts.get(key) is None:
            self._layouts[key] = compiled_layout(prepared_estimate, *key, lambda: candidate, search_result, finalist)
        layout = self._layouts[key]
        assert layout is not None  # the search has compiled it
        return layout

    def variants(self, layout: CompiledLayout, candidate: Candidate) -> list[CompiledLayout]:
        """Return variants of a layout that fit, which are slower but leave more room for KV caches.

        Args:
            layout: The layout.
            candidate: The same layout as compiled by a search.
        """
        choices = variant_choices(candidate.choice).values()
        variants = (self._recompiled(layout, layout.prepared, candidate.options, choice) for choice in choices)
        return [variant for variant in variants if variant is not None]

    def with_shorter_chunks(self, layout: CompiledLayout) -> CompiledLayout | None:
        """Recompile a layout with prompt chunks of about half as many tokens.

        A chunk is a part of a prompt that goes through the layers at once. Its size is a multiple
        of the rows of the first rectangle of PEs, because tokens are divided evenly over rows. Only
        the matrix product ``THIN_GEMM`` does not need this.

        Returns:
            The layout, or None if the chunks cannot be any shorter or the layout does not fit.
        """
        choice = layout.choice
        step = 1 if choice.prefill == THIN_GEMM else layout.region_rows
        if choice.prefill_chunk <= step:
            return None
        return self._with_chunks(layout, step * ceil_div(ceil_div(choice.prefill_chunk, step), 2))

    def with_longer_chunks(self, layout: CompiledLayout) -> CompiledLayout | None:
        """Recompile a layout with prompt chunks of twice as many tokens, at most the longest prompt.

        Returns:
            The layout, or None if a chunk is a whole prompt already or the layout does not fit.
        """
        chunk, prompt = layout.choice.prefill_chunk, max(layout.options.prompt_tokens)
        return None if chunk >= prompt else self._with_chunks(layout, min(2 * chunk, prompt))

    def _with_chunks(self, layout: CompiledLayout, tokens: int) -> CompiledLayout | None:
        """Recompile a layout with prompt chunks of a number of tokens; None if it does not fit."""
        choice = replace(layout.choice, prefill_chunk=tokens)
        return self._recompiled(layout, layout.prepared, layout.options, choice)

    def with_more_slots(self, layout: CompiledLayout, goal: Goal) -> CompiledLayout | None:
        """Recompile a layout so that each decode pass generates tokens for twice as many users.

        Args:
            layout: The layout to recompile.
            goal: Goal that determines how many users a replica serves.

        Returns:
            The layout, or None if there are not enough users or the layout does not fit.
        """
        prepared_estimate, options = layout.prepared, layout.options
        max_concurrency, slots = layout.deployment.max_concurrency, 2 * options.batch
        users = max_concurrency if goal.users is None else math.ceil(goal.users / goal.replicas_for(max_concurrency))
        if slots > min(users, max_concurrency, MOST_SLOTS):
            return None
        prompts = (prepared_estimate.prompt_len,) * slots
        wider_request = replace(
            prepared_estimate,
            request=replace_options(prepared_estimate.request, batch=slots),
            options=replace(prepared_estimate.options, prompt_tokens=prompts),
        )
        return self._recompiled(layout, wider_request, replace(options, prompt_tokens=prompts), layout.choice)

    def _recompiled(
        self, layout: CompiledLayout, prepared_estimate: PreparedEstimate, options: Options, choice: Choice
    ) -> CompiledLayout | None:
        """Compile a layout with other options or choices, or return the cached result.

        Args:
            layout: The layout from which the version is derived.
            prepared_estimate: The request for the version.
            options, choice: Options and choices for the version.

        Returns:
            The version, or None if it does not fit.
        """
        key = options, choice
        if key not in self._layouts:
            compile_version = cache(partial(recompiled, prepared_estimate, options, choice))
            self._layouts[key] = compiled_layout(
                prepared_estimate, options, choice, compile_version, layout.search_result, layout.finalist
            )
        return self._layouts[key]
