"""Both directions of a level of a tree, and of a multicast, on the same colours.

The released K-tree takes four colours a level, two for each direction, and two for its multicast. But a PE sends one
way in a level, and neighbours by turns: two colours are enough for both chains of a group, where its middle takes one
from each side. A router sends what its PE sends both ways on one colour. So a tree of two levels takes 5 colours in
place of 10, patterns seldom take turns with colours, and fewer routes are rewritten.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast, shared_multicast

PATTERNS: Final = (k_tree, multicast, shared_multicast)
"""The patterns whose directions can share colours."""


def _apply(c: Context, draft: Draft, setting: int) -> None:
    for index, step in enumerate(draft.steps):
        if not is_line(step):
            continue
        call = c.patterns.calls[step.pattern]
        if call.make in PATTERNS:
            draft.steps[index] = step.copy_with(pattern=c.patterns.index_of(call.with_options(shared_colours=True)))


REWRITE: Final = Rewrite(
    name="shared-colours",
    summary="Both directions of a level of a K-tree, and of a multicast, share colours.",
    source="Luczynski et al., HPDC 2024 (arXiv 2404.15888): a chain takes two colours by parity, a multicast one",
    position=200,
    apply=_apply,
)
