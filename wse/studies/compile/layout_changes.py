"""Changes of a layout, such as more room for KV caches or shorter prompt chunks, and their room.

A reduced model, which has one layer of each kind, shows the room for KV caches without compiling
the whole changed layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from wse.compiler.choice import Choice
from wse.compiler.options import FITTED_TREES, THIN_GEMM, WIDE_UNPACKING, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.search import Candidate
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trees import with_refitted_trees
from wse.errors import BadInput, DoesNotFit
from wse.studies.compile.capacity import min_planned_users, users_by_bytes
from wse.studies.compile.request_time import timing_of
from wse.studies.options.basis import PreparedPlacement
from wse_mappings.rounding import ceil_div

ALL_COLUMNS: Final = "attention on all columns"
FEW_CODES: Final = "the fewest codes unpacked at once"
Placement = TypeVar("Placement", bound=PreparedPlacement)
"""Type of the request of a version."""


class Version(NamedTuple, Generic[Placement]):
    """A layout to compile, which differs from a layout that a search has found.

    Attributes:
        prepared: The request, with the number of users per pass of the version.
        options, choice: Options and choices of the compiler.
    """

    prepared: Placement
    options: Options
    choice: Choice

    @property
    def key(self) -> tuple[Options, Choice]:
        """Everything that distinguishes versions of one request.

        The trees of all-reduces are left out, because they are fitted again for each version.
        """
        return self.options, replace(self.choice, trees=()) if self.choice.uses(FITTED_TREES) else self.choice

    @property
    def tokens(self) -> int:
        """Total number of tokens in the prompt and the answer of a request."""
        return self.prepared.tokens_per_user

    def with_chunks(self, tokens: int) -> Version[Placement]:
        """Return the version with prompt chunks of a number of tokens."""
        return self._replace(choice=replace(self.choice, prefill_chunk=tokens))


Change = Callable[[Version[Placement]], list[Version[Placement]]]
"""Function that returns versions of a layout that differ from it in one respect."""


def users_that_fit(version: Version[Placement], context: int) -> int:
    """Return how many users' KV caches fit on a version, without compiling it fully.

    Args:
        version: The version. If only the whole model needs too many colours, the result is too
            large.
        context: Number of tokens in each user's KV cache.

    Returns:
        Number of users; 0 if the version does not fit.
    """
    try:
        return _reduced_model(version).allocate().users_that_fit(context, version.options.prefix_tokens)
    except (BadInput, DoesNotFit):
        return 0


def recompiled(version: Version[Placement]) -> Candidate | None:
    """Compile a version of a layout; return None if it does not fit.

    The trees of its all-reduces are fitted again, because the lengths of messages may change.
    """
    p, options, choice = version
    try:
        choice = with_refitted_trees(p.spec, p.wafer, p.software, options, choice, timing_of(p))
        program = compile_choice(p.spec, p.wafer, p.software, options, choice, WITHOUT_TILES)
    except DoesNotFit:
        return None
    return Candidate(program, options, choice)


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


def variants(version: Version[Placement]) -> list[Version[Placement]]:
    """Return versions that are slower but may leave more room for KV caches (`variant_choices`)."""
    return [version._replace(choice=choice) for choice in variant_choices(version.choice).values()]


def planned_for_more_users(version: Version[Placement]) -> list[Version[Placement]]:
    """Return a version with regions sized for the KV caches of more users.

    Regions have sizes in proportion to the bytes that they store. With more caches, regions with
    layers become larger, and regions with vocabulary tables smaller. The new number of users is
    `min_planned_users` or, if regions are already sized for at least as many, the number with twice
    as many tokens in their caches.

    Returns:
        A list with the version; an empty list if the regions are listed, or if the number of users
        would exceed `users_by_bytes`.
    """
    options, tokens, users = version.options, version.tokens, min_planned_users(version.prepared)
    if options.cache_tokens_of(users, tokens) <= options.planned_cache_tokens:
        shared_tokens = options.cache_tokens_of(0, tokens)
        users = (2 * options.planned_cache_tokens - shared_tokens) // (tokens - shared_tokens)
    if options.listed or users > users_by_bytes(version.prepared):
        return []
    return [version._replace(options=replace(options, cache_tokens=options.cache_tokens_of(users, tokens)))]


def shorter_chunks(version: Version[Placement]) -> list[Version[Placement]]:
    """Return a version with prompt chunks of about half as many tokens.

    A chunk is a part of a prompt that goes through the layers at once.

    Returns:
        A list with the version; an empty list if the chunks cannot be any shorter.
    """
    chunk, step = version.choice.prefill_chunk, _chunk_step(version)
    return [] if chunk <= step else [version.with_chunks(step * ceil_div(ceil_div(chunk, step), 2))]


def longer_chunks(version: Version[Placement]) -> list[Version[Placement]]:
    """Return a version with prompt chunks of twice as many tokens, at most the longest unread prompt.

    Returns:
        A list with the version; an empty list if a chunk is a whole prompt already.
    """
    chunk, prompt = version.choice.prefill_chunk, max(version.options.unread_tokens)
    return [] if chunk >= prompt else [version.with_chunks(min(2 * chunk, prompt))]


def roomiest_versions(version: Version[Placement]) -> list[Version[Placement]]:
    """Return the versions with the most room for KV caches, except that passes serve as many users.

    They have the choices of the last variant and the shortest chunks. They differ in the number of
    users for whose KV caches regions are sized.
    """
    version = [version, *variants(version)][-1]
    versions = [version.with_chunks(min(version.choice.prefill_chunk, _chunk_step(version)))]
    while larger_versions := planned_for_more_users(versions[-1]):
        versions += larger_versions
    return versions


def _chunk_step(version: Version[Placement]) -> int:
    """Return the number of tokens of which a prompt chunk must be a multiple.

    Tokens are divided evenly over the rows of a region, except in the matrix product ``THIN_GEMM``.
    """
    return 1 if version.choice.prefill == THIN_GEMM else _reduced_model(version).state.plans[0].rows


def _reduced_model(version: Version[Placement]) -> ReducedModel:
    """Return the reduced model of a version, with prompts of one chunk."""
    p, options, choice = version
    return reduced_model(p.spec, p.wafer, p.software, options.with_one_chunk(choice.prefill_chunk), choice)
