"""Cycle counts of a compiled request: its prompts and its decoded tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wse.backends.fabric.expert_columns import ExpertTokens
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals, TimedRun
from wse.program.program import Program
from wse.studies.estimate.prepare import PreparedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How many tokens each expert gets in a run, for each prompt chunk and each decoded token."""

    prefill: Sequence[ExpertTokens]
    decode: Sequence[ExpertTokens]


def time_run(prepared_estimate: PreparedEstimate, program: Program, routing: Routing | None) -> TimedRun:
    """Count the cycles needed to process the prompts and decode all new tokens of a request.

    The first new token of each user is not decoded, because prefill already yields it.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
        routing: Experts that each token selects. If None, tokens are assumed to be distributed
            across the experts as evenly as possible.
    """
    clock = RunTotals(Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes))
    if routing is None:
        return TimedRun(clock, clock.prefill_all(), clock.decode_all(prepared_estimate.new_tokens - 1))
    prompts = [clock.prefill_chunk(index, expert_tokens) for index, expert_tokens in enumerate(routing.prefill)]
    for expert_tokens in routing.decode:
        clock.decode_token(expert_tokens=expert_tokens)
    return TimedRun(clock, prompts, [])
