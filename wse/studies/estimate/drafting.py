"""The gain of speculative decoding on wafers: acceptance of drafts against the time of drafting and checking.

Assumptions, of grade I as nothing is published about drafts on wafers. Where no draft model is named the draft is a
head of one layer of the model with the model's embedding and output table, as MTP and EAGLE heads are: a drafted
token takes the time of one layer, without crossings between wafers, and of all that is outside of layers. A draft
model is compiled for a mesh of the same size on wafers of its own kind. The pass that checks n + 1 tokens is compiled,
for the regions that were chosen for one, with attention on the columns on which it is fastest; what it and the draft
need of SRAM besides is not asked for. Users of a batch have such passes one after another, as Programs have them. A
pass of the draft over several tokens, as trees have them, takes as many times one over one token as of the model, where
the draft is a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.fabric.model import Fabric
from wse.hardware.number import Grade, weakest
from wse.models.tensors.model_tensors import stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.request.basis import Placeable
from wse.request.draft_option import HOST
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine
from wse.serving.speculation import Acceptance, best_draft
from wse.studies.compile.choose import pass_cost
from wse.studies.compile.draft_times import DraftTimes, Region
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
        shared_cost: What passes for each token besides, over the time of a plain pass.
        grade: The grade of the weakest number that it rests on.
    """

    draft_tokens: int
    gain: float
    draft_cost: float
    check_cost: float
    shared_cost: float = 0.0
    grade: Grade

    @property
    def tokens_per_pass(self) -> float:
        """Tokens that a pass brings on average."""
        pass_cost = self.draft_tokens * self.draft_cost + self.check_cost
        return self.gain * pass_cost / (1 + self.shared_cost * (1 - self.gain))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledDraft:
    """A draft model of a request, compiled, and the place where it runs."""

    prepared: Placeable
    compilation: Compilation
    place: str


def best_drafting(curve: Acceptance, machine: DraftMachine) -> Drafting:
    """The best draft on a curve of tokens per pass by draft length, for a machine."""
    plain_s = machine.verify_s(1)
    cost, shared = machine.draft_s(1) / plain_s, machine.shared_s / plain_s
    length, gain = best_draft(curve, cost, lambda tokens: machine.check_s(tokens - 1) / plain_s, shared)
    return Drafting(
        draft_tokens=length,
        gain=gain,
        draft_cost=cost,
        check_cost=(machine.check_s(length) if length else plain_s) / plain_s,
        shared_cost=shared,
        grade=weakest((curve.grade, COST_GRADE)),
    )


def head_machine(prepared: Placeable, compilation: Compilation, decode: DecodeResult) -> DraftMachine:
    """The times of a request's model and of a head that drafts for it; ``decode`` is of its estimate."""
    verify_s = PassTimes(prepared, compilation)
    cost = draft_cost(decode, prepared.spec.layer_count)
    return DraftMachine(verify_s=verify_s, draft_s=lambda tokens: cost * verify_s(tokens))


def model_machine(prepared: Placeable, compilation: Compilation, draft: CompiledDraft) -> DraftMachine:
    """The times of a request's model and of a draft model, with the ways of ids between them for each draft.

    On the host, a pass over any number of tokens takes the time of reading the weights from memory, and the ids of each
    pass of the model a round trip.
    """
    wafer, verify_s, program = prepared.wafer, PassTimes(prepared, compilation), draft.compilation.program
    region, own = _embedding_region(compilation.program), _embedding_region(program)
    times = DraftTimes(wafer=wafer, software=prepared.software, region=region, place=draft.place, host_draws=False)
    float_bytes = ELEMENT_BYTES[program.element_type("act")]
    weights = stored_bytes(draft.prepared.spec, program.weight_type, float_bytes)

    def ways_s(tokens: int) -> float:
        ways = times.exchange_cycles(2, own, region) + times.exchange_cycles(tokens - 1, region, own)
        return (times.round_trip_cycles() + compilation.options.batch * ways) / wafer.clock_hz

    on_wafer = PassTimes(draft.prepared, draft.compilation)
    on_host_s = times.host_token_cycles(weights) / wafer.clock_hz
    return DraftMachine(
        verify_s=verify_s,
        draft_s=(lambda tokens: on_host_s) if draft.place == HOST else on_wafer,
        ways_s=ways_s,
    )


class PassTimes:
    """Seconds of a pass of a compiled model over so many new tokens of each user, by their number.

    One token of each user is a decoded one; several are a pass for each user in turn, which takes no less than that.
    """

    def __init__(self, prepared: Placeable, compilation: Compilation) -> None:
        self._prepared, self._compilation = prepared, compilation
        fabric = Fabric(compilation.program, prepared.wafer, prepared.software, prepared.meshes)
        self._plain = fabric.decode_cost(*prepared.middle_context).cycles
        self._cycles = {1: self._plain}

    def __call__(self, tokens: int) -> float:
        if tokens not in self._cycles:
            cycles = self._compilation.options.batch * pass_cost(self._prepared, self._compilation, tokens).cycles
            self._cycles[tokens] = max(self._plain, cycles)
        return self._cycles[tokens] / self._prepared.wafer.clock_hz


def _embedding_region(program: Program) -> Region:
    stage = next(stage for stage in program.stages if stage.has_embedding)
    return Region(rows=stage.rect.rows, cols=stage.cols)


def draft_cost(decode: DecodeResult, layers: int) -> float:
    """The time of a drafted token over that of a token of the model; 1 for a model of one layer on one wafer.

    ``decode`` is of the model. Crossings between wafers are steps of layers, of each its share; a draft has none.
    """
    layer = decode.cycles_per_layer - decode.cycles_by["crossing"] / layers
    outside = decode.cycles_per_token - layers * decode.cycles_per_layer
    return (layer + outside) / decode.cycles_per_token
