"""The choice of experts sent along with a cut block, where every part of it would choose anew.

A stage may end inside a mixture: each part of the block has some features of every expert, and works on the vectors
that all parts read. The other parts need what the first part computed from these for its choice.

1. The first part sends its normalised vectors instead of what they were before, and behind them, on every row, ids and
   weights of the chosen experts, as activations.
2. The others normalise nothing and run no router: they take what came.

Both are in the lowering of norms, routers and hand-overs (`Context.sends_choice`), as no block has all of these steps.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import SENT_CHOICE, Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.models.spec import ModelSpec

EXACT_INTEGERS: Final = {"bfloat16": 1 << 8, "float16": 1 << 11, "float32": 1 << 24}
"""The integers from 0 on up to which a type has all."""


def _apply(c: Context, draft: Draft, setting: int) -> None:
    """Leave the block as it was lowered."""


def _invalid(spec: ModelSpec, options: Options) -> str:
    if spec.experts is None:
        return f"{spec.name} has no router"
    if spec.experts.count - 1 > EXACT_INTEGERS[options.activation_type]:
        return f"{options.activation_type} has not all ids of {spec.experts.count} experts"
    return ""


REWRITE: Final = Rewrite(
    name=SENT_CHOICE,
    summary="The first part of a cut mixture sends what it normalised and chose, and the others choose nothing.",
    source="this project: what one stage has worked out is sent where it takes fewer cycles than to work it out again",
    position=120,
    apply=_apply,
    invalid=_invalid,
    between_stages=True,
)
