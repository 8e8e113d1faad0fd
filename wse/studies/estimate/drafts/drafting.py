"""Passes on wafers that draft and verify tokens, and the deployment that decodes by them.

Assumptions, of grade I as nothing is published about drafts on wafers:

1. Where no draft model is named the draft is a head of one layer of the model with the model's embedding and output
   table, as MTP and EAGLE heads are. The model and its head are compiled together. Of a pass of that Program, the steps
   of the head's layer and those outside of layers are the draft's, and all except the head's layer are the model's.
2. A draft model is compiled for its own PEs (`wse.studies.estimate.drafts.placement`).
3. The pass that verifies n draft tokens is compiled for n + 1 tokens on the regions that were chosen for one, with
   attention on the columns on which it is fastest. It may need more SRAM than there is, which is not checked.
4. A pass verifies the draft tokens of one user. Passes of several users go through the stages one after another. A
   head drafts on the PEs of the last stage, in addition to the work of that stage. A draft model drafts on PEs, wafers
   or a host of its own, which is one more stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.search.search import Compilation
from wse.hardware.number import Grade
from wse.program.phase import Phase
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.drafts.machine import DraftMachine
from wse.serving.route import Route, busy_cycles
from wse.studies.compile.choose import pass_fabric
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.estimate.deployment import middle_deployment
from wse.studies.estimate.drafts.best_drafts import Choose
from wse.studies.estimate.drafts.placement import PlacedDraft, weight_bytes
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.timing.stage_times import REGION, RouteReader, pass_time
from wse.studies.options.basis import PreparedPlacement
from wse.studies.options.draft import HEAD
from wse.studies.results.users import users_at

COST_GRADE: Final[Grade] = "I"
OUTSIDE: Final = -1
"""The layer of ops outside of layers, such as the embedding and the output table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPass:
    """A pass over several new tokens of one user. Times are seconds.

    Attributes:
        model_s: The pass through all stages, without the layer of a head.
        head_s: The layer of a head and the steps outside of layers; 0 for a model without a head.
        busy_s: Work of the slowest stage or link.
        last_stage_s: Work of the last stage, without the layer of a head.
    """

    model_s: float
    head_s: float
    busy_s: float
    last_stage_s: float

    def busy_with(self, drafts_s: float, *, on_last_stage: bool) -> float:
        """Return the work of the slowest stage, link or draft.

        Args:
            drafts_s: All passes of the draft.
            on_last_stage: Whether the last stage drafts in addition to its own work.
        """
        return max(self.busy_s, drafts_s + (self.last_stage_s if on_last_stage else 0.0))


class VerifyPasses:
    """The passes of a compiled model over several new tokens of one user, each compiled once for the same regions."""

    def __init__(self, prepared: PreparedPlacement, compilation: Compilation, *, has_head: bool) -> None:
        """Create the passes of a compiled model, whose last layer may be that of a draft head."""
        self._prepared, self._compilation, self._has_head = prepared, compilation, has_head
        self._readers: dict[int, tuple[Fabric, RouteReader]] = {}
        self._passes: dict[tuple[int, int], VerifyPass] = {}

    def in_the_middle(self, tokens: int) -> VerifyPass:
        """Return the pass over a number of new tokens, at least 2, in the middle of what is requested."""
        return self.after(self._prepared.middle_context[0], tokens)

    def after(self, context: int, tokens: int) -> VerifyPass:
        """Return the pass over a number of new tokens after a context, or after as much as the cache leaves it."""
        context = min(context, self._compilation.options.context - tokens)
        if (context, tokens) not in self._passes:
            self._passes[context, tokens] = self._pass(context, tokens)
        return self._passes[context, tokens]

    def _pass(self, context: int, tokens: int) -> VerifyPass:
        fabric, reader = self._compiled(tokens)
        phase, cost, clock_hz = fabric.program.verify[0], fabric.verify_cost(context), self._prepared.wafer.clock_hz
        route = reader.route(phase, cost)
        layer = outside = 0.0
        if self._has_head:
            layer = layer_cycles(fabric.program, phase, cost, self._prepared.spec.layer_count - 1)
            outside = layer_cycles(fabric.program, phase, cost, OUTSIDE)
        time = pass_time(reader, self._prepared.wafer, route)
        return VerifyPass(
            model_s=time.latency_s - layer / clock_hz,
            head_s=(layer + outside) / clock_hz,
            busy_s=time.busy_s,
            last_stage_s=(_last_stage_cycles(reader, route) - layer) / clock_hz,
        )

    def _compiled(self, tokens: int) -> tuple[Fabric, RouteReader]:
        if tokens not in self._readers:
            fabric = pass_fabric(self._prepared, self._compilation, tokens)
            self._readers[tokens] = fabric, RouteReader(fabric)
        return self._readers[tokens]


def machine_of(
    prepared: PreparedPlacement, compilation: Compilation, draft: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of a request's model and of its draft, for one user.

    Args:
        prepared: The request.
        compilation: Its model.
        draft: The draft in its place.
        passes: The passes that verify drafts, as of `verify_passes`.
    """
    if draft.name == HEAD:
        return head_machine(prepared, compilation, draft, passes)
    return _model_machine(prepared, compilation, draft, passes)


def head_machine(
    prepared: PreparedPlacement, compilation: Compilation, head: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of a request's model and of a head that drafts for it.

    A token without drafts is that of the model compiled alone. Passes over several tokens are those of the model
    compiled with its head, and take no less time than that.
    """
    assert head.compilation is not None  # a head has PEs
    drafted_s = head_token_parts(head)[1]
    return DraftMachine(
        verify_s=_verify_s(prepared, compilation, passes),
        draft_s=lambda tokens: drafted_s if tokens == 1 else passes.in_the_middle(tokens).head_s,
        busy_s=lambda tokens, drafts_s: passes.in_the_middle(tokens + 1).busy_with(drafts_s, on_last_stage=True),
    )


def _model_machine(
    prepared: PreparedPlacement, compilation: Compilation, draft: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of a request's model and of a draft model, with the time of ids in transit between them.

    On the host, a pass over any number of tokens takes the time of reading the weights from memory, and the ids of each
    pass of the model take a round trip.
    """
    wafer = prepared.wafer
    home, region = _embedding_region(compilation.program)
    times = DraftTimes(
        wafer=wafer,
        software=prepared.software,
        region=region,
        place=draft.place,
        host_draws=False,
        wafers_apart=0 if draft.region is None else abs(draft.region.wafer - home),
    )
    machine = DraftMachine(
        verify_s=_verify_s(prepared, compilation, passes),
        draft_s=lambda tokens: times.host_token_cycles(weight_bytes(draft.prepared)) / wafer.clock_hz,
        ways_s=lambda tokens: times.round_trip_cycles() / wafer.clock_hz,
        busy_s=lambda tokens, drafts_s: passes.in_the_middle(tokens + 1).busy_with(drafts_s, on_last_stage=False),
    )
    if draft.compilation is None:
        return machine
    _, own = _embedding_region(draft.compilation.program)

    def ways_s(tokens: int) -> float:
        ways = times.exchange_cycles(2, own, region) + times.exchange_cycles(tokens - 1, region, own)
        return ways / wafer.clock_hz

    own_passes = VerifyPasses(draft.prepared, draft.compilation, has_head=False)
    return replace(machine, draft_s=_verify_s(draft.prepared, draft.compilation, own_passes), ways_s=ways_s)


def _verify_s(prepared: PreparedPlacement, compilation: Compilation, passes: VerifyPasses) -> Callable[[int], float]:
    """Return the seconds of passes of one user by their number of tokens; of one token, those of a pass of all slots.

    A pass over several tokens takes no less time than one over one token of the same user.
    """
    plain_s = decode_s(prepared, compilation)
    least_s = plain_s if compilation.options.batch == 1 else 0.0
    return lambda tokens: plain_s if tokens == 1 else max(least_s, passes.in_the_middle(tokens).model_s)


def verify_passes(prepared: PreparedPlacement, compilation: Compilation, draft: PlacedDraft) -> VerifyPasses:
    """Return the passes that verify drafts: of the model compiled with its head, or of the model alone."""
    if draft.name == HEAD and draft.compilation is not None:
        return VerifyPasses(draft.prepared, draft.compilation, has_head=True)
    return VerifyPasses(prepared, compilation, has_head=False)


def decode_s(prepared: PreparedPlacement, compilation: Compilation) -> float:
    """Return the seconds of a pass over one token of each user, in the middle of what is requested."""
    fabric = Fabric(compilation.program, prepared.wafer, prepared.software, prepared.meshes)
    return fabric.decode_cost(*prepared.middle_context).cycles / prepared.wafer.clock_hz


def head_token_parts(head: PlacedDraft) -> tuple[float, float]:
    """Return the seconds of the model and of the head in a pass over one token, compiled together."""
    assert head.compilation is not None  # a head has PEs
    prepared, program = head.prepared, head.compilation.program
    fabric = Fabric(program, prepared.wafer, prepared.software, prepared.meshes)
    cost = fabric.decode_cost(*prepared.middle_context)
    layer = layer_cycles(program, program.decode, cost, prepared.spec.layer_count - 1)
    tables = layer_cycles(program, program.decode, cost, OUTSIDE)
    return (cost.cycles - layer) / prepared.wafer.clock_hz, (layer + tables) / prepared.wafer.clock_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferDrafter:
    """The wafers of a request with drafts; see `wse.studies.estimate.drafts.best_drafts.Drafter`.

    Attributes:
        plain: The wafers without drafts.
        base: The wafers whose passes are to verify drafts: with prompts and caches of a head, or less room for users.
        draft_wafers: Wafers of a draft model alone.
        passes: The passes that verify drafts.
        times: The times of passes for one user.
        mean: Seconds of a token on average over the answer, over those in the middle of it, where passes are timed.
    """

    plain: WaferDeployment
    base: WaferDeployment
    draft_wafers: int
    passes: VerifyPasses
    times: DraftMachine
    mean: float

    @property
    def max_concurrency(self) -> int:
        """Requests whose KV caches fit beside the draft."""
        return self.base.max_concurrency

    def machine(self, users: float) -> DraftMachine:
        """Return the times of passes, each of which verifies the drafts of one user, for any number of users."""
        return self.times

    def deployment(self, choose: Choose) -> WaferDeployment:
        """Return the wafers with drafts, those of a draft model on wafers of its own included."""
        steps = choose(self.times)
        return replace(
            self.base,
            chips=self.plain.chips + self.draft_wafers,
            slots=1,
            token_s=self.mean * steps.token_s,
            stage_s=self.mean * steps.busy_s / steps.tokens_per_pass,
        )


def wafer_drafter(
    prepared: PreparedEstimate, compilation: Compilation, draft: PlacedDraft, plain: WaferDeployment
) -> WaferDrafter:
    """Return the wafers of a request with a draft.

    Prompts pass through the layer of a head too, and its cache takes room of the users'. With a draft model, no more
    users have room than in its caches.

    Args:
        prepared: The request.
        compilation: Its model.
        draft: The draft in its place.
        plain: The wafers without drafts.
    """
    base = plain
    if draft.compilation is not None and draft.name == HEAD:
        base = middle_deployment(draft.prepared, draft.compilation.program)
    elif draft.compilation is not None:
        room = users_at(draft.compilation.program, plain.shape.tokens)
        base = replace(plain, max_concurrency=min(plain.max_concurrency, room))
    passes = verify_passes(prepared, compilation, draft)
    return WaferDrafter(
        plain=plain,
        base=base,
        draft_wafers=draft.wafers,
        passes=passes,
        times=machine_of(prepared, compilation, draft, passes),
        mean=plain.token_s / decode_s(prepared, compilation),
    )


def layer_cycles(program: Program, phase: Phase, cost: PhaseCost, layer: int) -> float:
    """Return the cycles that the steps of a layer add to a phase; with `OUTSIDE` those of steps outside of layers."""
    layer_of_step = np.array(program.op_layers)[phase.steps.op]
    return float(cost.by_step[layer_of_step == layer].sum())


def _last_stage_cycles(reader: RouteReader, route: Route) -> float:
    """Return the cycles of work of the region that a pass ends in."""
    last = next(visit.server for visit in reversed(route) if reader.servers[visit.server].kind == REGION)
    return busy_cycles([route])[last]


def _embedding_region(program: Program) -> tuple[int, Region]:
    """Return the wafer and the size of the region with the embedding, where the ids of a model are."""
    stage = next(stage for stage in program.stages if stage.has_embedding)
    return stage.wafer, Region(rows=stage.rect.rows, cols=stage.cols)
