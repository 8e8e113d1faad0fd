"""Variants of a layout that are slower but leave more room for KV caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from wse.compiler.choice import Choice
from wse.compiler.options import WIDE_UNPACKING, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Candidate
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trees import with_refitted_trees
from wse.errors import DoesNotFit
from wse.studies.compile.choose import timing_of
from wse.studies.estimate.prepare import PreparedEstimate

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
