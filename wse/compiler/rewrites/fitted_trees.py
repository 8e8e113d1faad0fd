"""Rewrite: choose the number of groups of each all-reduce tree by line and message length.

An all-reduce is a K-tree: the words of each group of PEs are added up in the middle of the group,
and then the sums of the groups are added up. By default, every tree has the number of groups with
the fewest relays. The first word of a message waits for every relay on its path. The following
words wait for each other wherever a PE receives from two sides: inside a group, and again between
the middles of the groups. Short messages are therefore fastest with the fewest relays. Long
messages are fastest with few groups, where few streams of words meet in the same PE.

The search chooses the groups for every size (`wse.compiler.search.trees`). All-reduces of sizes for
which it has chosen nothing stay unchanged. So do reduces, because other steps depend on their root,
and all-reduces whose groups are specified in the request.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.choice import TreeSize
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import FITTED_TREES
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line, number
from wse.compiler.state import PatternCall
from wse.compiler.symbolic import SymStep
from wse_mappings.patterns.k_tree import Groups, k_tree


def groups_of(count: int) -> Groups:
    """Return the argument ``groups`` of `k_tree` for a given number of groups of PEs.

    `k_tree` creates an all-reduce that adds up values within groups of PEs, and then among the
    groups. Its argument lists the number of groups for each level except the last. For a single
    group it is (), because there is then only one level, which needs fewer router colours.
    """
    return (count,) if count > 1 else ()


def with_groups(tree: PatternCall, count: int) -> PatternCall:
    """Return a call that creates the same all-reduce tree with a different number of groups.

    Args:
        tree: Call that creates a K-tree.
        count: Number of groups in the first level of the new tree.
    """
    return tree.with_options(groups=groups_of(count))


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change each all-reduce to the number of PE groups that a search found fastest for its size.

    An all-reduce adds up values within groups of PEs, and then among the groups. Its size consists
    mainly of the number of PEs on its line and the length of its messages. The size is also stored
    in the step, so that the search can list all sizes of a model. ``setting`` is not used.
    """
    chosen_groups = dict(c.choice.trees)
    for index, step in enumerate(block_steps.steps):
        size = _tree_size(c, step)
        if size in chosen_groups:
            pattern = c.patterns.index_of(with_groups(c.patterns.calls[step.pattern], chosen_groups[size]))
            block_steps.steps[index] = step.copy_with(pattern=pattern, tree=size)
        elif size is not None:
            block_steps.steps[index] = step.copy_with(tree=size)


def _tree_size(c: Context, step: SymStep) -> TreeSize | None:
    """Return the size of an all-reduce whose number of groups a search may choose, else None.

    The step must be a K-tree all-reduce, which adds up values within groups of PEs and then among
    the groups. The request must not specify the groups, and the number of elements must not change
    between iterations.
    """
    if not is_line(step):
        return None
    make, args, options = c.patterns.calls[step.pattern]
    elements, tree_options = number(step, "elements"), dict(options)
    if (
        make is not k_tree
        or not tree_options["broadcast"]
        or tree_options.get("groups") is not None
        or elements.per_round
    ):
        return None
    length, segments = args[0], tree_options.get("segments", ())
    pes = max((pe_count for _, pe_count in segments), default=length)
    first, first_count = segments[0] if segments else (0, length)
    pes_around = (first, length - first - first_count) if tree_options.get("to_all") else (0, 0)
    sizes = (elements.fixed, elements.per_slot, elements.per_pair)
    payload = [size * c.options.element_bytes(step.view) for size in sizes]
    return TreeSize(c.name, pes, *payload, *pes_around)


REWRITE: Final = Rewrite(
    name=FITTED_TREES,
    summary="All-reduces of long messages use fewer groups than those with the fewest relays.",
    source="Luczynski et al., HPDC 2024 (arXiv 2404.15888): the best reduce depends on the message length",
    position=220,
    apply=_apply,
)
