"""Cycle counts of a compiled request: its prompts and its decoded tokens."""

from __future__ import annotations

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals, TimedRun
from wse.program.program import Program
from wse.studies.estimate.prepare import PreparedEstimate


def time_run(prepared_estimate: PreparedEstimate, program: Program) -> TimedRun:
    """Count the cycles needed to process the prompts and decode all new tokens of a request.

    The first new token of each user is not decoded, because prefill already yields it.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
    """
    clock = RunTotals(Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes))
    return TimedRun(clock, clock.prefill_all(), clock.decode_all(prepared_estimate.new_tokens - 1))
