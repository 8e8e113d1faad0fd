"""DraftMachine of a model on wafers: times of drafting and verification with a head or a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wse.backends.fabric.model import Fabric
from wse.compiler.search.search import Compilation
from wse.program.program import Program
from wse.serving.drafts.machine import DraftMachine
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.estimate.drafts.placement import PlacedDraft
from wse.studies.estimate.drafts.verify_passes import OUTSIDE, VerifyPasses, layer_cycles
from wse.studies.options.basis import PreparedPlacement


def head_machine(
    prepared_placement: PreparedPlacement, compilation: Compilation, head: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of drafting and of verification with a draft head, for one user.

    A draft head is an additional layer of the model. The model is compiled twice: a pass without
    speculative decoding is timed without the head, and a pass over several tokens with it. With a
    batch of 1, a pass over several tokens is assumed to be no faster than a pass without drafts.

    Args:
        prepared_placement: The request.
        compilation: The model compiled without its head.
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


def model_machine(
    prepared_placement: PreparedPlacement, compilation: Compilation, draft: PlacedDraft, passes: VerifyPasses
) -> DraftMachine:
    """Return the times of drafting and of verification with a separate draft model, for one user.

    The times include the exchange of token ids between the two models. If the draft model runs on
    the host, a draft pass takes as long as reading the model's weights from memory once, and each
    verification pass adds a round trip to the host.

    Args:
        prepared_placement: The request for the model that verifies the draft tokens.
        compilation: The compiled model that verifies the draft tokens.
        draft: The draft model, compiled for the PEs or the host on which it runs.
        passes: The passes that verify drafts, from `verify_passes`.
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
        transit_s=lambda tokens: times.round_trip_cycles() / wafer.clock_hz,
        busy_s=lambda tokens, drafts_s: passes.in_the_middle(tokens + 1).busy_with(drafts_s, on_last_stage=False),
    )
    if draft.compilation is None:
        return machine
    _, draft_region = _embedding_region(draft.compilation.program)

    def transit_s(tokens: int) -> float:
        """Return the time in seconds to send token ids to the draft model and draft tokens back.

        Args:
            tokens: Number of tokens in a verification pass. All except one are draft tokens.
        """
        cycles = times.exchange_cycles(2, draft_region, region) + times.exchange_cycles(
            tokens - 1, region, draft_region
        )
        return cycles / wafer.clock_hz

    draft_passes = VerifyPasses(draft.prepared, draft.compilation, has_head=False)
    return replace(machine, draft_s=_verify_s(draft.prepared, draft.compilation, draft_passes), transit_s=transit_s)


def _verify_s(
    prepared_placement: PreparedPlacement, compilation: Compilation, passes: VerifyPasses
) -> Callable[[int], float]:
    """Return a function that computes the seconds of a pass from its number of new tokens.

    A pass over one token is a normal decode pass of the whole batch. A pass over several tokens is
    a verification pass of one user. With a batch of 1, it is assumed to be no faster than a decode
    pass.

    Args:
        prepared_placement: The request.
        compilation: The model that runs the decode pass.
        passes: Timing of the verification passes.
    """
    plain_s = decode_s(prepared_placement, compilation)
    least_s = plain_s if compilation.options.batch == 1 else 0.0
    return lambda tokens: plain_s if tokens == 1 else max(least_s, passes.in_the_middle(tokens).model_s)


def decode_s(prepared_placement: PreparedPlacement, compilation: Compilation) -> float:
    """Return the seconds of a decode pass, halfway through the answer.

    A decode pass generates one token for each user of a batch.

    Args:
        prepared_placement: The request.
        compilation: The compiled model.
    """
    fabric = Fabric(
        compilation.program, prepared_placement.wafer, prepared_placement.software, prepared_placement.meshes
    )
    return fabric.decode_cost(*prepared_placement.middle_context).cycles / prepared_placement.wafer.clock_hz


def head_token_parts(head: PlacedDraft) -> tuple[float, float]:
    """Return the times of the model and of its draft head in a pass over one token.

    Steps outside all layers, such as the output, run for the model and again for the head, so their
    time is included in both results.

    Args:
        head: The model compiled with its draft head, which is an additional layer.

    Returns:
        1. Seconds of all steps except those of the head's layer.
        2. Seconds of the head's layer and of the steps outside all layers.
    """
    assert head.compilation is not None  # a head has PEs
    prepared_estimate, program = head.prepared, head.compilation.program
    fabric = Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes)
    cost, clock_hz = fabric.decode_cost(*prepared_estimate.middle_context), prepared_estimate.wafer.clock_hz
    head_layer_cycles = layer_cycles(program, program.decode, cost, prepared_estimate.spec.layer_count - 1)
    outside_cycles = layer_cycles(program, program.decode, cost, OUTSIDE)
    return (cost.cycles - head_layer_cycles) / clock_hz, (head_layer_cycles + outside_cycles) / clock_hz


def _embedding_region(program: Program) -> tuple[int, Region]:
    """Return the PE rectangle that receives token ids, which stores the embedding table.

    Returns:
        The index of the wafer that contains the rectangle, and the size of the rectangle.
    """
    stage = next(stage for stage in program.stages if stage.has_embedding)
    return stage.wafer, Region(rows=stage.rect.rows, cols=stage.cols)
