"""The gain of speculative decoding on wafers: acceptance of draft tokens against the time of drafting and verifying.

Assumptions, of grade I as nothing is published about drafts on wafers:

1. Where no draft model is named the draft is a head of one layer of the model with the model's embedding and output
   table, as MTP and EAGLE heads are. The model and its head are compiled together. Of a pass of that Program, the steps
   of the head's layer and those outside of layers are the draft's, and all but the head's layer are the model's.
2. A draft model is compiled for its own PEs (`wse.studies.estimate.draft_placement`).
3. The pass that verifies n draft tokens is compiled for n + 1 tokens on the regions that were chosen for one, with
   attention on the columns on which it is fastest. It may need more SRAM than there is, which is not checked.
4. Users of a batch have such passes one after another, as Programs have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.fabric.model import Fabric
from wse.fabric.phase_cost import PhaseCost
from wse.hardware.number import Grade, weakest
from wse.program.phase import Phase
from wse.program.program import Program
from wse.request.basis import Placeable
from wse.request.draft_option import HEAD
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine
from wse.serving.speculation import Acceptance, best_draft
from wse.studies.compile.choose import pass_cost, pass_fabric
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.estimate.draft_placement import PlacedDraft, weight_bytes

COST_GRADE: Final[Grade] = "I"
OUTSIDE: Final = -1
"""The layer of ops outside of layers, such as the embedding and the output table."""


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


def best_drafting(curve: Acceptance, machine: DraftMachine) -> Drafting:
    """The best draft on a curve of tokens per pass by draft length, for a machine."""
    plain_s = machine.verify_s(1)
    cost, shared = machine.draft_s(1) / plain_s, machine.shared_s / plain_s
    length, gain = best_draft(
        curve,
        cost,
        lambda tokens: machine.check_s(tokens - 1) / plain_s,
        shared,
        has_one_peak=machine.has_one_peak,
    )
    return Drafting(
        draft_tokens=length,
        gain=gain,
        draft_cost=cost,
        check_cost=(machine.check_s(length) if length else plain_s) / plain_s,
        shared_cost=shared,
        grade=weakest((curve.grade, COST_GRADE)),
    )


def machine_of(prepared: Placeable, compilation: Compilation, draft: PlacedDraft) -> DraftMachine:
    """Return the times of a request's model and of its draft."""
    if draft.name == HEAD:
        return head_machine(prepared, compilation, draft)
    return _model_machine(prepared, compilation, draft)


def head_machine(prepared: Placeable, compilation: Compilation, head: PlacedDraft) -> DraftMachine:
    """Return the times of a request's model and of a head that drafts for it.

    A token without drafts is that of the model compiled alone. Passes over several tokens are those of the model
    compiled with its head.
    """
    assert head.compilation is not None  # a head has PEs
    plain, passes = PassTimes(prepared, compilation), HeadPasses(head.prepared, head.compilation)
    return DraftMachine(
        verify_s=lambda tokens: plain(1) if tokens == 1 else max(plain(1), passes.model_s(tokens)),
        draft_s=passes.head_s,
    )


def _model_machine(prepared: Placeable, compilation: Compilation, draft: PlacedDraft) -> DraftMachine:
    """Return the times of a request's model and of a draft model, with the time of ids on their way between them.

    On the host, a pass over any number of tokens takes the time of reading the weights from memory, and the ids of each
    pass of the model take a round trip.
    """
    wafer, verify_s = prepared.wafer, PassTimes(prepared, compilation)
    home, region = _embedding_region(compilation.program)
    times = DraftTimes(
        wafer=wafer,
        software=prepared.software,
        region=region,
        place=draft.place,
        host_draws=False,
        wafers_apart=0 if draft.region is None else abs(draft.region.wafer - home),
    )
    round_trip_s = times.round_trip_cycles() / wafer.clock_hz
    if draft.compilation is None:
        on_host_s = times.host_token_cycles(weight_bytes(draft.prepared)) / wafer.clock_hz
        return DraftMachine(verify_s=verify_s, draft_s=lambda tokens: on_host_s, ways_s=lambda tokens: round_trip_s)
    _, own = _embedding_region(draft.compilation.program)

    def ways_s(tokens: int) -> float:
        ways = times.exchange_cycles(2, own, region) + times.exchange_cycles(tokens - 1, region, own)
        return compilation.options.batch * ways / wafer.clock_hz

    return DraftMachine(verify_s=verify_s, draft_s=PassTimes(draft.prepared, draft.compilation), ways_s=ways_s)


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


class HeadPasses:
    """Seconds of passes of a model that was compiled with a draft head as its last layer, by the tokens of each user.

    The model's part of a pass is all of it except for the head's layer. The head's part is its layer, and the steps
    outside of layers: embedding, output table and what follows.
    """

    def __init__(self, prepared: Placeable, compilation: Compilation) -> None:
        self._prepared, self._compilation = prepared, compilation
        self._parts: dict[int, tuple[float, float]] = {}

    def model_s(self, tokens: int) -> float:
        """Return the seconds of the model's part of a pass over so many tokens of each user."""
        return self._seconds(tokens)[0]

    def head_s(self, tokens: int) -> float:
        """Return the seconds of the head's part of a pass over so many tokens of each user."""
        return self._seconds(tokens)[1]

    def _seconds(self, tokens: int) -> tuple[float, float]:
        if tokens not in self._parts:
            prepared, compilation = self._prepared, self._compilation
            if tokens == 1:
                fabric = Fabric(compilation.program, prepared.wafer, prepared.software, prepared.meshes)
                phase, cost, passes = fabric.program.decode, fabric.decode_cost(*prepared.middle_context), 1
            else:
                fabric = pass_fabric(prepared, compilation, tokens)
                before = min(prepared.middle_context[0], compilation.options.context - tokens)
                phase, cost = fabric.program.verify[0], fabric.verify_cost(before)
                passes = compilation.options.batch
            head = layer_cycles(fabric.program, phase, cost, prepared.spec.layer_count - 1)
            tables = layer_cycles(fabric.program, phase, cost, OUTSIDE)
            scale = passes / prepared.wafer.clock_hz
            self._parts[tokens] = (scale * (cost.cycles - head), scale * (head + tables))
        return self._parts[tokens]


def layer_cycles(program: Program, phase: Phase, cost: PhaseCost, layer: int) -> float:
    """Return the cycles that the steps of a layer add to a phase; with `OUTSIDE` those of steps outside of layers."""
    layer_of_step = np.array(program.op_layers)[phase.steps.op]
    return float(cost.by_step[layer_of_step == layer].sum())


def _embedding_region(program: Program) -> tuple[int, Region]:
    """Return the wafer and the size of the region with the embedding, where the ids of a model are."""
    stage = next(stage for stage in program.stages if stage.has_embedding)
    return stage.wafer, Region(rows=stage.rect.rows, cols=stage.cols)
