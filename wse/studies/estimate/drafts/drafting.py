"""Passes on wafers that draft and verify tokens, and the deployment that decodes with them.

The following is assumed, with grade I because nothing is published about drafts on wafers:

1. Without a draft model, the draft is a head: one more layer of the model, with the model's
   embedding and output table, as in MTP and EAGLE. Model and head are compiled together. In a pass
   of that Program, the steps of the head's layer and the steps outside all layers belong to the
   draft. All steps except those of the head's layer belong to the model.
2. A draft model is compiled for its own PEs (`wse.studies.estimate.drafts.placement`).
3. The pass that verifies n draft tokens is compiled for n + 1 tokens. It uses the regions that were
   chosen for one token, with attention on the columns where attention is fastest. It may need more
   SRAM than is available, which is not checked.
4. A pass verifies the draft tokens of one user. Passes of several users go through the stages one
   after another. A head drafts on the PEs of the last stage, in addition to the work of that stage.
   A draft model has its own PEs, wafers or host, which form one more stage.
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
from wse.serving.route import PassRoute, busy_cycles
from wse.studies.compile.choose import pass_fabric
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.estimate.deployment import middle_deployment
from wse.studies.estimate.drafts.best_drafts import Choose
from wse.studies.estimate.drafts.placement import PlacedDraft
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.timing.stage_times import REGION, RouteReader, pass_time
from wse.studies.options.basis import PreparedPlacement
from wse.studies.options.drafts.draft import HEAD
from wse.studies.results.users import users_at

COST_GRADE: Final[Grade] = "I"
"""Evidence grade of the costs of drafts on wafers: inferred."""
OUTSIDE: Final = -1
"""Layer number of ops outside all layers, such as the embedding and the output table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPass:
    """Times of a verification pass, which runs the model over several new tokens of one user.

    All times are in seconds. A draft head is one more layer of the model, which proposes tokens.

    Attributes:
        model_s: Time through all stages, without the layer of a draft head.
        head_s: Time of the layer of a draft head and of the steps outside all layers; 0 without a
            head.
        busy_s: Time for which the pass occupies the slowest stage or link.
        last_stage_s: Time for which it occupies the last stage, without the layer of a draft head.
    """

    model_s: float
    head_s: float
    busy_s: float
    last_stage_s: float

    def busy_with(self, drafts_s: float, *, on_last_stage: bool) -> float:
        """Return the seconds for which the busiest stage, link or draft works for one pass.

        Args:
            drafts_s: Time to draft all tokens of the pass, in seconds.
            on_last_stage: Whether the last stage drafts in addition to its own work.
        """
        return max(self.busy_s, drafts_s + (self.last_stage_s if on_last_stage else 0.0))


class VerifyPasses:
    """Timing of the verification passes of a model, cached by context and number of new tokens.

    A verification pass runs the model over several new tokens of one user. It is compiled once for
    each number of new tokens, on the same regions of PEs as the model.
    """

    def __init__(self, prepared_placement: PreparedPlacement, compilation: Compilation, *, has_head: bool) -> None:
        """Prepare to time the verification passes of a compiled model.

        Args:
            prepared_placement: Request for the model.
            compilation: The compiled model.
            has_head: Whether the last layer is a draft head.
        """
        self._prepared, self._compilation, self._has_head = prepared_placement, compilation, has_head
        self._readers: dict[int, tuple[Fabric, RouteReader]] = {}
        self._passes: dict[tuple[int, int], VerifyPass] = {}

    def in_the_middle(self, tokens: int) -> VerifyPass:
        """Return the times of a pass over ``tokens`` new tokens halfway through the generation.

        Args:
            tokens: Number of new tokens, at least 2.
        """
        return self.pass_after(self._prepared.middle_context[0], tokens)

    def pass_after(self, context: int, tokens: int) -> VerifyPass:
        """Return the times of a pass over ``tokens`` new tokens of one user.

        Args:
            context: Tokens in the KV cache before the pass. The number is reduced if the cache
                would have no room for the new tokens.
            tokens: New tokens, at least 2.
        """
        context = min(context, self._compilation.options.context - tokens)
        if (context, tokens) not in self._passes:
            self._passes[context, tokens] = self._pass(context, tokens)
        return self._passes[context, tokens]

    def _pass(self, context: int, tokens: int) -> VerifyPass:
        """Time a pass over ``tokens`` new tokens, after ``context`` tokens in the KV cache."""
        fabric, reader = self._compiled(tokens)
        phase, cost, clock_hz = fabric.program.verify[0], fabric.verify_cost(context), self._prepared.wafer.clock_hz
        route = reader.route(phase, cost)
        head_layer_cycles = outside_cycles = 0.0
        if self._has_head:
            head_layer_cycles = layer_cycles(fabric.program, phase, cost, self._prepared.spec.layer_count - 1)
            outside_cycles = layer_cycles(fabric.program, phase, cost, OUTSIDE)
        time = pass_time(reader, self._prepared.wafer, route)
        return VerifyPass(
            model_s=time.latency_s - head_layer_cycles / clock_hz,
            head_s=(head_layer_cycles + outside_cycles) / clock_hz,
            busy_s=time.busy_s,
            last_stage_s=(_last_stage_cycles(reader, route) - head_layer_cycles) / clock_hz,
        )

    def _compiled(self, tokens: int) -> tuple[Fabric, RouteReader]:
        """Return the timing model of passes over N new tokens, and the reader of their routes."""
        if tokens not in self._readers:
            fabric = pass_fabric(self._prepared, self._compilation, tokens)
            self._readers[tokens] = fabric, RouteReader(fabric)
        return self._readers[tokens]


def machine_of(
    prepared_placement: PreparedPlacement, compilation: Compilation, draft: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of drafting and of verification, from which the best drafts follow.

    Args:
        prepared_placement: The request.
        compilation: The compiled model.
        draft: The draft head or draft model, compiled for its place.
        passes: The passes that verify drafts, from `verify_passes`.
    """
    if draft.name == HEAD:
        return head_machine(prepared_placement, compilation, draft, passes)
    return _model_machine(prepared_placement, compilation, draft, passes)


def head_machine(
    prepared_placement: PreparedPlacement, compilation: Compilation, head: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of drafting and of verification with a draft head, for one user.

    A draft head is one more layer of the model. A token without drafts is timed on the model
    compiled alone. Passes over several tokens are timed on the model compiled with its head. They
    are assumed to be no faster than a token without drafts.

    Args:
        prepared_placement: The request.
        compilation: The model compiled alone.
        head: The model compiled with its head.
        passes: The passes that verify drafts, from `verify_passes`.
    """
    assert head.compilation is not None  # a head has PEs
    drafted_s = head_token_parts(head)[1]
    return DraftMachine(
        verify_s=_verify_s(prepared_placement, compilation, passes),
        draft_s=lambda tokens: drafted_s if tokens == 1 else passes.in_the_middle(tokens).head_s,
        busy_s=lambda tokens, drafts_s: passes.in_the_middle(tokens + 1).busy_with(drafts_s, on_last_stage=True),
    )


def _model_machine(
    prepared_placement: PreparedPlacement, compilation: Compilation, draft: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of drafting and of verification with a separate draft model, for one user.

    They include the time in which token ids travel between the two models. If the draft model runs
    on the host, each of its passes takes the time to read its weights from memory once, and each
    pass of the model adds a round trip for the ids.
    """
    wafer = prepared_placement.wafer
    embedding_wafer, region = _embedding_region(compilation.program)
    times = DraftTimes(
        wafer=wafer,
        software=prepared_placement.software,
        region=region,
        place=draft.place,
        host_draws=False,
        wafers_apart=0 if draft.region is None else abs(draft.region.wafer - embedding_wafer),
    )
    machine = DraftMachine(
        verify_s=_verify_s(prepared_placement, compilation, passes),
        draft_s=lambda tokens: times.host_token_cycles(draft.prepared.weight_bytes) / wafer.clock_hz,
        ways_s=lambda tokens: times.round_trip_cycles() / wafer.clock_hz,
        busy_s=lambda tokens, drafts_s: passes.in_the_middle(tokens + 1).busy_with(drafts_s, on_last_stage=False),
    )
    if draft.compilation is None:
        return machine
    _, draft_region = _embedding_region(draft.compilation.program)

    def ways_s(tokens: int) -> float:
        """Return the seconds in which token ids go to the draft model and draft tokens come back.

        Args:
            tokens: Tokens of a verification pass, of which all except one are draft tokens.
        """
        cycles = times.exchange_cycles(2, draft_region, region) + times.exchange_cycles(
            tokens - 1, region, draft_region
        )
        return cycles / wafer.clock_hz

    draft_passes = VerifyPasses(draft.prepared, draft.compilation, has_head=False)
    return replace(machine, draft_s=_verify_s(draft.prepared, draft.compilation, draft_passes), ways_s=ways_s)


def _verify_s(
    prepared_placement: PreparedPlacement, compilation: Compilation, passes: VerifyPasses
) -> Callable[[int], float]:
    """Return a function that gives the seconds of a verification pass over N new tokens.

    For one token, this is a normal decode pass of the whole batch. With a batch of 1, a pass over
    several tokens is assumed to be no faster than a decode pass.
    """
    plain_s = decode_s(prepared_placement, compilation)
    least_s = plain_s if compilation.options.batch == 1 else 0.0
    return lambda tokens: plain_s if tokens == 1 else max(least_s, passes.in_the_middle(tokens).model_s)


def verify_passes(prepared_placement: PreparedPlacement, compilation: Compilation, draft: PlacedDraft) -> VerifyPasses:
    """Return the timing of the passes that verify the drafts of a request.

    The passes run on the model compiled with its draft head if it has one, and otherwise on the
    model compiled alone.

    Args:
        prepared_placement: The request.
        compilation: The model compiled alone.
        draft: The draft head or draft model, compiled for its place.
    """
    if draft.name == HEAD and draft.compilation is not None:
        return VerifyPasses(draft.prepared, draft.compilation, has_head=True)
    return VerifyPasses(prepared_placement, compilation, has_head=False)


def decode_s(prepared_placement: PreparedPlacement, compilation: Compilation) -> float:
    """Return the seconds of a pass over one token of each user, halfway through the generation."""
    fabric = Fabric(
        compilation.program, prepared_placement.wafer, prepared_placement.software, prepared_placement.meshes
    )
    return fabric.decode_cost(*prepared_placement.middle_context).cycles / prepared_placement.wafer.clock_hz


def head_token_parts(head: PlacedDraft) -> tuple[float, float]:
    """Return the seconds of the model and of its draft head in a pass over one token.

    Steps outside all layers, such as the output, run for both, so they count in both numbers.

    Args:
        head: The model compiled with its draft head, which is one more layer.

    Returns:
        1. Seconds of all steps except those of the head's layer.
        2. Seconds of the head's layer and of the steps outside all layers.
    """
    assert head.compilation is not None  # a head has PEs
    prepared_estimate, program = head.prepared, head.compilation.program
    fabric = Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes)
    cost = fabric.decode_cost(*prepared_estimate.middle_context)
    head_layer_cycles = layer_cycles(program, program.decode, cost, prepared_estimate.spec.layer_count - 1)
    outside_cycles = layer_cycles(program, program.decode, cost, OUTSIDE)
    return (cost.cycles - head_layer_cycles) / prepared_estimate.wafer.clock_hz, (
        head_layer_cycles + outside_cycles
    ) / prepared_estimate.wafer.clock_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferDrafter:
    """Wafers that serve a model with drafts (tokens that are proposed cheaply and then verified).

    This class implements `wse.studies.estimate.drafts.best_drafts.Drafter`.

    Attributes:
        plain: Deployment without drafts.
        base: Deployment on which the deployment with drafts is based. With a draft head, it
            includes the work and the caches of the head. With a draft model, it may have room for
            fewer users.
        draft_wafers: Number of wafers that only the draft model uses.
        passes: Timing of the passes that verify drafts.
        times: Times of drafting and of verification passes for one user.
        mean_ratio: Mean time of a token divided by the time of the token halfway through the
            generation. All passes are timed halfway, so their times are multiplied by this ratio.
    """

    plain: WaferDeployment
    base: WaferDeployment
    draft_wafers: int
    passes: VerifyPasses
    times: DraftMachine
    mean_ratio: float

    @property
    def max_concurrency(self) -> int:
        """Number of requests whose KV caches fit along with the draft."""
        return self.base.max_concurrency

    def machine(self, users: float) -> DraftMachine:
        """Return the times of drafting and of verification passes.

        They do not depend on the number of users, because each pass verifies the draft of a single
        user.
        """
        return self.times

    def deployment(self, choose: Choose) -> WaferDeployment:
        """Return the deployment with the drafts that ``choose`` returns.

        Its wafers include those that only the draft model uses.
        """
        steps = choose(self.times)
        return replace(
            self.base,
            chips=self.plain.chips + self.draft_wafers,
            slots=1,
            token_s=self.mean_ratio * steps.token_s,
            stage_s=self.mean_ratio * steps.busy_s / steps.tokens_per_pass,
        )


def wafer_drafter(
    prepared_estimate: PreparedEstimate, compilation: Compilation, draft: PlacedDraft, plain: WaferDeployment
) -> WaferDrafter:
    """Return the wafers that serve a model with a given draft.

    A draft head is one more layer: prompts go through it too, and its KV cache leaves less room for
    users. With a draft model, the caches of the draft model must fit for all users as well.

    Args:
        prepared_estimate: The request.
        compilation: The compiled model.
        draft: The draft head or draft model, compiled for its place.
        plain: Deployment without drafts.
    """
    base = plain
    if draft.compilation is not None and draft.name == HEAD:
        base = middle_deployment(draft.prepared, draft.compilation.program)
    elif draft.compilation is not None:
        room = users_at(draft.compilation.program, plain.shape.tokens)
        base = replace(plain, max_concurrency=min(plain.max_concurrency, room))
    passes = verify_passes(prepared_estimate, compilation, draft)
    return WaferDrafter(
        plain=plain,
        base=base,
        draft_wafers=draft.wafers,
        passes=passes,
        times=machine_of(prepared_estimate, compilation, draft, passes),
        mean_ratio=plain.token_s / decode_s(prepared_estimate, compilation),
    )


def layer_cycles(program: Program, phase: Phase, cost: PhaseCost, layer: int) -> float:
    """Return the cycles that the steps of one layer take in a phase.

    Args:
        program: Compiled Program.
        phase: Phase of the Program.
        cost: Cycles of each step of the phase.
        layer: Index of the layer, or `OUTSIDE` for the steps outside all layers.
    """
    layer_of_step = np.array(program.op_layers)[phase.steps.op]
    return float(cost.by_step[layer_of_step == layer].sum())


def _last_stage_cycles(reader: RouteReader, route: PassRoute) -> float:
    """Return the cycles for which a pass occupies the last region of PEs on its route."""
    last = next(visit.server for visit in reversed(route) if reader.servers[visit.server].kind == REGION)
    return busy_cycles([route])[last]


def _embedding_region(program: Program) -> tuple[int, Region]:
    """Return the rectangle of PEs that stores the embedding table, which receives token ids.

    Returns:
        The index of its wafer, and its size.
    """
    stage = next(stage for stage in program.stages if stage.has_embedding)
    return stage.wafer, Region(rows=stage.rect.rows, cols=stage.cols)
