"""The cycles of a compiled request: its prompts and its decoded tokens, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wse.backends.fabric.expert_costs import Pairs
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals, TimedRun
from wse.program.program import Program
from wse.studies.estimate.prepare import PreparedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The experts that the tokens of a run chose, for each chunk of the prompts and each decoded token."""

    prefill: Sequence[Pairs]
    decode: Sequence[Pairs]


def time_run(prepared: PreparedEstimate, program: Program, routing: Routing | None) -> TimedRun:
    """Prompts and all new tokens but the first of each user, which the prompts give, counted."""
    clock = RunTotals(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    if routing is None:
        return TimedRun(clock, clock.prefill_all(), clock.decode_all(prepared.new_tokens - 1))
    prompts = [clock.prefill_chunk(index, pairs) for index, pairs in enumerate(routing.prefill)]
    for pairs in routing.decode:
        clock.decode_token(pairs=pairs)
    return TimedRun(clock, prompts, [])
