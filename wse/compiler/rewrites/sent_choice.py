"""Rewrite: send the choice of experts to the other parts of a split block.

A stage may end inside a mixture of experts. The block is then split into parts on consecutive
stages. Each part contains some features of every expert, and all parts process the same input
vectors. Without this rewrite, each part computes the expert selection again.

1. The first part sends its normalised vectors instead of its input. Every row also sends the ids
   and weights of the selected experts, in the activation type.
2. The other parts use this data and need neither a norm nor a router.

Both are implemented in the lowering of norms, routers and transfers between stages (`sends_choice`
in `wse.compiler.lowering.phase.split_block`), because no single block contains all these steps.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import SENT_CHOICE, Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.models.spec import ModelSpec

EXACT_INTEGERS: Final = {"bfloat16": 1 << 8, "float16": 1 << 11, "float32": 1 << 24}
"""For each type, the number up to which all integers can be represented exactly."""


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Leave the steps of a block unchanged, because lowering has already applied this rewrite.

    The rewrite sends the selected experts from one part of a feed-forward block to the next part.
    This concerns the steps of several blocks (lists of steps), but this function receives only one
    block.
    """


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a model and request; "" if it is valid.

    The model needs experts, and the activation type must be able to represent all their ids.
    """
    if spec.experts is None:
        return f"{spec.name} has no router"
    if spec.experts.count - 1 > EXACT_INTEGERS[options.activation_type]:
        return f"{options.activation_type} cannot represent all ids of {spec.experts.count} experts"
    return ""


REWRITE: Final = Rewrite(
    name=SENT_CHOICE,
    summary="The first part of a split mixture sends its normalised input and its choice of experts to the others.",
    source="this project: a result is sent to other stages where that costs fewer cycles than computing it again",
    position=120,
    apply=_apply,
    invalid=_invalid,
    between_stages=True,
)
