"""Groups of all-reduces fitted to their words, where every K-tree had those with the fewest relays.

The first word waits for every relay in transit. The words behind it wait for each other wherever a PE receives from two
sides: in a group, and again among the middles of the groups. So a few words go fastest over the fewest relays, and many
over few groups, whose middles are few relays and meet in no PE, or in one. An all-reduce leaves its result on every
PE, so that it does not matter in which one the last sum is taken.

The search finds the groups for every size (`wse.compiler.search.trees`); sizes that it did not choose any for stay as
they are. So do reduces, whose roots other steps depend on, and all-reduces whose groups the request gives.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import FITTED_TREES, TreeSize
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line, number
from wse.compiler.state import PatternCall
from wse.compiler.symbolic import SymStep
from wse.number_formats import ELEMENT_BYTES
from wse_mappings.patterns.k_tree import Groups, k_tree


def groups_of(count: int) -> Groups:
    """Return the levels of a tree with ``count`` groups.

    One group is a level of its own, which needs fewer colours than two levels.
    """
    return (count,) if count > 1 else ()


def with_groups(tree: PatternCall, count: int) -> PatternCall:
    """Return the all-reduce ``tree`` with ``count`` groups."""
    return tree.with_options(groups=groups_of(count))


def _apply(c: Context, draft: Draft, setting: int) -> None:
    fitted = dict(c.choice.trees)
    for index, step in enumerate(draft.steps):
        size = _tree_size(c, step)
        if size in fitted:
            pattern = c.patterns.index_of(with_groups(c.patterns.calls[step.pattern], fitted[size]))
            draft.steps[index] = step.copy_with(pattern=pattern, tree=size)
        elif size is not None:
            draft.steps[index] = step.copy_with(tree=size)


def _tree_size(c: Context, step: SymStep) -> TreeSize | None:
    """Return the size of an all-reduce with the fewest relays and a fixed length; None for other steps."""
    if not is_line(step):
        return None
    make, args, options = c.patterns.calls[step.pattern]
    elements, of_tree = number(step, "elements"), dict(options)
    if make is not k_tree or not of_tree["broadcast"] or of_tree.get("groups") is not None or elements.per_round:
        return None
    length, segments = args[0], of_tree.get("segments", ())
    pes, (first, count) = max((count for _, count in segments), default=length), (*segments, (0, length))[0]
    around = (first, length - first - count) if of_tree.get("to_all") else (0, 0)
    sizes = (elements.fixed, elements.per_slot, elements.per_pair)
    payload = [size * ELEMENT_BYTES[c.options.element_type(step.view)] for size in sizes]
    return TreeSize(c.name, pes, *payload, *around)


REWRITE: Final = Rewrite(
    name=FITTED_TREES,
    summary="All-reduces of many words are cut into fewer groups than those with the fewest relays.",
    source="Luczynski et al., HPDC 2024 (arXiv 2404.15888): the best reduce on a wafer goes by the words",
    position=220,
    apply=_apply,
)
