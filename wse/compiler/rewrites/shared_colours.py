"""Rewrite: use the same colours for both directions of a K-tree level and of a multicast.

The released K-tree uses four colours per level, two for each direction, and two for its multicast.
However, a PE sends in one direction per level, and neighbouring PEs alternate between two colours.
Two colours are therefore enough for both chains of a group: the PE in the middle receives one from
each side. A multicast needs one colour because a router can forward its PE's words in both
directions. A two-level tree thus needs 5 colours instead of 10. Fewer patterns share colours, and
fewer routes are rewritten.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast, shared_multicast

PATTERNS: Final = (k_tree, multicast, shared_multicast)
"""Patterns whose two directions can use the same colours."""


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Replace all-reduce trees and multicasts with variants that need fewer router colours.

    The variants use the same colours in both directions along a line of PEs. The steps are modified
    in place. ``setting`` is not used.
    """
    for index, step in enumerate(block_steps.steps):
        if not is_line(step):
            continue
        call = c.patterns.calls[step.pattern]
        if call.make in PATTERNS:
            block_steps.steps[index] = step.copy_with(
                pattern=c.patterns.index_of(call.with_options(shared_colours=True))
            )


REWRITE: Final = Rewrite(
    name="shared-colours",
    summary="Both directions of a K-tree level use the same colours, and so do those of a multicast.",
    source="Luczynski et al., HPDC 2024 (arXiv 2404.15888): a chain uses two colours by parity, a multicast one",
    position=200,
    apply=_apply,
)
