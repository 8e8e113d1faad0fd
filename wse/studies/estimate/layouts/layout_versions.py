"""Versions of compiled layouts: more room for KV caches, other prompt chunks, more users per pass.

Some versions of a layout are slower than it but leave more room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple

from wse.compiler.choice import Choice
from wse.compiler.options import THIN_GEMM, WIDE_UNPACKING, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Candidate, Compilation
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trees import with_refitted_trees
from wse.errors import DoesNotFit
from wse.serving.goal import Goal
from wse.studies.compile.choose import timing_of
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, compiled_layout
from wse.studies.estimate.layouts.searches import min_planned_users, users_by_bytes
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options
from wse_mappings.rounding import ceil_div

ALL_COLUMNS: Final = "attention on all columns"
FEW_CODES: Final = "the fewest codes unpacked at once"


class Variant(NamedTuple):
    """A recompiled layout that needs more cycles but leaves more room for KV caches.

    Attributes:
        name: Description of what the compiler did differently.
        candidate: The compiled layout.
    """

    name: str
    candidate: Candidate


def variants_of(prepared_estimate: PreparedEstimate, candidate: Candidate) -> tuple[Variant, ...]:
    """Compile variants of a layout that are slower but leave more room for KV caches.

    `variant_choices` lists the compiler choices that are changed. Variants that do not fit are left
    out.

    Args:
        prepared_estimate: The request.
        candidate: The compiled layout from which the variants are derived.
    """
    choices = variant_choices(candidate.choice)
    compiled = ((name, recompiled(prepared_estimate, candidate.options, choice)) for name, choice in choices.items())
    return tuple(Variant(name, variant) for name, variant in compiled if variant is not None)


def variant_choices(choice: Choice) -> dict[str, Choice]:
    """Return compiler choices that need more cycles but leave more room for KV caches.

    1. Attention is distributed across all columns of PEs, so that each column stores fewer cache
       entries.
    2. As few codes of quantised weights as possible are unpacked at a time, which needs less
       scratch memory. (The rewrite `WIDE_UNPACKING`, which is removed, unpacks many.)
    3. Both changes are made.

    A choice that equals ``choice`` is left out.

    Returns:
        The choices, keyed by a description of the change.
    """
    all_columns = replace(choice, attention_cols=0)
    choices = {ALL_COLUMNS: all_columns} if choice.attention_cols else {}
    if choice.uses(WIDE_UNPACKING):
        choices[FEW_CODES] = choice.without_rewrite(WIDE_UNPACKING)
        if choice.attention_cols:
            choices[f"{ALL_COLUMNS}, {FEW_CODES}"] = all_columns.without_rewrite(WIDE_UNPACKING)
    return choices


def recompiled(prepared_estimate: PreparedEstimate, options: Options, choice: Choice) -> Candidate | None:
    """Compile a model again with other options or choices.

    The trees of its all-reduces are fitted again, because the lengths of messages may change.

    Args:
        prepared_estimate: The request.
        options: Compiler options.
        choice: Compiler choices, such as the layout.

    Returns:
        The compiled layout, or None if it does not fit.
    """
    p = prepared_estimate
    try:
        choice = with_refitted_trees(p.spec, p.wafer, p.software, options, choice, timing_of(p))
        program = compile_choice(p.spec, p.wafer, p.software, options, choice, WITHOUT_TILES)
    except DoesNotFit:
        return None
    return Candidate(program, options, choice)


MOST_SLOTS: Final = 256
"""Maximum number of users per pass."""


class LayoutVersions:
    """Layouts of a request, and versions of them.

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

    def variants(self, layout: CompiledLayout) -> list[CompiledLayout]:
        """Return variants of a layout that fit, which are slower but leave more room for KV caches."""
        choices = variant_choices(layout.choice).values()
        variants = (self._recompiled(layout, layout.prepared, layout.options, choice) for choice in choices)
        return [variant for variant in variants if variant is not None]

    def planned_for_more_users(self, layout: CompiledLayout) -> CompiledLayout | None:
        """Recompile a layout with regions sized for the KV caches of more users.

        Regions have sizes in proportion to the bytes that they store. With more caches, regions with
        layers become larger, and regions with vocabulary tables smaller. The first version is for
        `min_planned_users`, and each further one is for twice as many users.

        Returns:
            The layout, or None if its regions are listed, if the number of users would exceed
            `users_by_bytes`, or if the layout does not fit.
        """
        options, tokens, users = layout.options, layout.deployment.shape.tokens, min_planned_users(layout.prepared)
        if users * tokens <= options.planned_cache_tokens:
            users = 2 * options.planned_cache_tokens // tokens
        if options.listed or users > users_by_bytes(layout.prepared):
            return None
        return self._recompiled(layout, layout.prepared, replace(options, cache_tokens=users * tokens), layout.choice)

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

        A version is also rejected if it has too little room for the KV caches for which the request
        reserves memory (``Options.cache_tokens``).

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
            version = compiled_layout(
                prepared_estimate, options, choice, compile_version, layout.search_result, layout.finalist
            )
            tokens = 0 if version is None else version.deployment.max_concurrency * version.deployment.shape.tokens
            self._layouts[key] = version if tokens >= prepared_estimate.options.cache_tokens else None
        return self._layouts[key]
