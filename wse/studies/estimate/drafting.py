"""The gain of speculative decoding on wafers: a draft head's acceptance against the time of drafting and checking.

Assumptions, of grade I as nothing is published about drafts on wafers. The draft is a head of one layer of the model
with the model's embedding and output table, as MTP and EAGLE heads are, of which the acceptance was measured: a drafted
token takes the time of one layer, without crossings between wafers, and of all that is outside of layers. The pass that
checks n + 1 tokens is compiled, for the regions that were chosen for one; what it and the draft need of SRAM besides
is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from wse.fabric.model import Fabric
from wse.hardware.number import Grade, weakest
from wse.request.basis import Placeable
from wse.search.search import Compilation
from wse.serving.speculation import Acceptance, best_draft
from wse.studies.compile.choose import pass_cost
from wse.studies.results.phases import DecodeResult

COST_GRADE: Final[Grade] = "I"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Drafts of the length that gains most.

    Attributes:
        draft_tokens: Tokens proposed in each pass; 0 where no length gains.
        gain: Times as many tokens a second as without drafts.
        draft_cost: The time of drafting a token over that of a plain pass.
        check_cost: The time of a pass over one more token than are drafted, over that of a plain pass.
        grade: The grade of the weakest number that it rests on.
    """

    draft_tokens: int
    gain: float
    draft_cost: float
    check_cost: float
    grade: Grade

    @property
    def tokens_per_pass(self) -> float:
        """Tokens that a pass brings on average."""
        return self.gain * (self.draft_tokens * self.draft_cost + self.check_cost)


def best_drafting(curve: Acceptance, prepared: Placeable, compilation: Compilation, decode: DecodeResult) -> Drafting:
    """The best draft on a curve for the one user of a request.

    Args:
        curve: Tokens per pass by draft length.
        prepared: The request.
        compilation: The Program that was compiled for it, and its layout.
        decode: Generated tokens of its estimate.
    """

    fabric = Fabric(compilation.program, prepared.wafer, prepared.software, prepared.meshes)
    plain = fabric.decode_cost(*prepared.middle_context).cycles

    @cache
    def check_cost(tokens: int) -> float:
        return max(1.0, pass_cost(prepared, compilation, tokens).cycles / plain) if tokens > 1 else 1.0

    cost = draft_cost(decode, prepared.spec.layer_count)
    length, gain = best_draft(curve, cost, check_cost)
    return Drafting(
        draft_tokens=length,
        gain=gain,
        draft_cost=cost,
        check_cost=check_cost(length + 1),
        grade=weakest((curve.grade, COST_GRADE)),
    )


def draft_cost(decode: DecodeResult, layers: int) -> float:
    """The time of a drafted token over that of a token of the model; 1 for a model of one layer on one wafer.

    ``decode`` is of the model. Crossings between wafers are steps of layers, of each its share; a draft has none.
    """
    layer = decode.cycles_per_layer - decode.cycles_by["crossing"] / layers
    outside = decode.cycles_per_token - layers * decode.cycles_per_layer
    return (layer + outside) / decode.cycles_per_token
