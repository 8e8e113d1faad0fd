"""Passes on wafers that verify drafts: compiled for so many tokens of a user, at each context of the grid.

Users have such passes one after another, as Programs have them. A head drafts on the PEs of the last stage, which its
layer's work comes to; a draft model on PEs, a wafer or a host of its own, which is a stage more. What drafts and ids on
their way take is that in the middle of a mean answer.
"""

from __future__ import annotations

from dataclasses import replace

from wse.fabric.model import Fabric
from wse.fabric.run_totals import RunTotals
from wse.request.prepare_estimate import PreparedEstimate
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine
from wse.serving.route import Route, busy_cycles
from wse.serving.simulation.staged_costs import DecodeGrid, PassTime, StagedCosts
from wse.studies.compile.choose import pass_fabric
from wse.studies.estimate.draft_plan import HEAD, draft_machine, drafter
from wse.studies.estimate.stage_times import REGION, RouteReader
from wse.studies.results.phases import decode_result
from wse.studies.serve.drafts import DraftsResult, drafts_result
from wse.studies.serve.wafer_costs import pass_time


def drafted_costs(
    prepared: PreparedEstimate, compilation: Compilation, costs: StagedCosts, wanted: int | None
) -> tuple[StagedCosts, DraftsResult | None]:
    """The costs of a request with drafts, of a length that is ``wanted`` or gains most; its own where it has none.

    Raises:
        BadInput and its kinds: the draft model cannot be used.
        DoesNotFit: it fits no number of wafers.
    """
    if prepared.acceptance is None or prepared.new_tokens < 2:
        return costs, None
    clock = RunTotals(Fabric(compilation.program, prepared.wafer, prepared.software, prepared.meshes))
    clock.decode_all(prepared.new_tokens - 1)
    decode = decode_result(clock.decode, prepared.spec.layer_count, prepared.wafer.clock_hz, 1)
    machine, (draft, place) = draft_machine(prepared, compilation, decode), drafter(prepared)
    result = drafts_result(prepared.acceptance, machine, wanted, draft, place)
    if not result.draft_tokens:
        return costs, result
    passes = _verify_passes(prepared, compilation, costs.contexts, machine, result)
    return replace(costs, decode=DecodeGrid(users=(1,), contexts=costs.contexts, passes=(passes,))), result


def _verify_passes(
    prepared: PreparedEstimate,
    compilation: Compilation,
    contexts: tuple[int, ...],
    machine: DraftMachine,
    result: DraftsResult,
) -> tuple[PassTime, ...]:
    """Passes after each number of tokens, or after as many fewer as the context leaves a draft."""
    tokens = result.draft_tokens + 1
    fabric = pass_fabric(prepared, compilation, tokens)
    reader, phase = RouteReader(fabric), fabric.program.verify[0]
    most = compilation.options.context - tokens
    ways_s, passes = machine.ways_s(tokens), []
    for context in contexts:
        route = reader.route(phase, fabric.verify_cost(min(context, most)))
        time = pass_time(reader, prepared.wafer, route)
        busy_s = result.draft_s
        if result.draft == HEAD:
            busy_s += _last_stage_cycles(reader, route) / prepared.wafer.clock_hz
        passes.append(PassTime(time.latency_s + result.draft_s + ways_s, max(time.busy_s, busy_s)))
    return tuple(passes)


def _last_stage_cycles(reader: RouteReader, route: Route) -> float:
    """Cycles of work of the region that a pass ends in."""
    last = next(visit.server for visit in reversed(route) if reader.servers[visit.server].kind == REGION)
    return busy_cycles([route])[last]
