"""Passes on wafers that verify drafts: compiled for so many tokens of a user, at each context of the grid.

Users have such passes one after another, as Programs have them. A head drafts on the PEs of the last stage, in addition
to the work of that stage. A draft model drafts on PEs, wafers or a host of its own, which is one more stage. The times
of drafts and of ids on their way are those in the middle of a mean answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.request.draft_option import HEAD
from wse.request.prepare_estimate import PreparedEstimate
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine
from wse.serving.route import Route, busy_cycles
from wse.serving.simulation.staged_costs import DecodeGrid, PassTime, StagedCosts
from wse.studies.compile.choose import pass_fabric
from wse.studies.estimate.draft_placement import PlacedDraft, place_draft
from wse.studies.estimate.draft_plan import place_result
from wse.studies.estimate.drafting import layer_cycles, machine_of
from wse.studies.estimate.stage_times import REGION, RouteReader
from wse.studies.results.sram import kv_capacity_tokens
from wse.studies.serve.drafts import DraftsResult, drafts_result
from wse.studies.serve.wafer_costs import pass_time, wafer_costs


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedCosts:
    """Costs of passes that verify drafts, and the Program that serves.

    Attributes:
        compilation: The model; with a head, the model compiled with its head.
        costs: The costs of its passes.
        drafts: The drafts; None without.
    """

    compilation: Compilation
    costs: StagedCosts
    drafts: DraftsResult | None


def drafted_costs(prepared: PreparedEstimate, compilation: Compilation, wanted: int | None) -> DraftedCosts:
    """Return the costs of a request, with drafts where it asks for them and they gain.

    With a head, prompts pass through the head's layer too, and its cache takes room of the users'. With a draft model,
    no more tokens have room than in its caches.

    Args:
        prepared: The request.
        compilation: Its model.
        wanted: The number of draft tokens; None for the one that gains most.

    Raises:
        BadInput and its kinds: the draft model cannot be used.
        DoesNotFit: the draft does not fit in its place.
    """
    plain = DraftedCosts(compilation=compilation, costs=wafer_costs(prepared, compilation), drafts=None)
    if prepared.acceptance is None or prepared.new_tokens < 2:
        return plain
    draft = place_draft(prepared, compilation)
    machine = machine_of(prepared, compilation, draft)
    result = drafts_result(prepared.acceptance, machine, wanted, place_result(draft), prepared.spec.name)
    if not result.draft_tokens:
        return replace(plain, drafts=replace(result, wafers=0))
    if draft.name == HEAD and draft.compilation is not None:
        compilation, prepared = draft.compilation, draft.prepared
        costs = wafer_costs(prepared, compilation)
    else:
        costs = _with_draft_caches(plain.costs, draft)
    passes = _verify_passes(prepared, compilation, costs.contexts, machine, result)
    grid = DecodeGrid(contexts=costs.contexts, passes=passes)
    return DraftedCosts(compilation=compilation, costs=replace(costs, decode=grid), drafts=result)


def _with_draft_caches(costs: StagedCosts, draft: PlacedDraft) -> StagedCosts:
    """Return costs with no more room for tokens than the caches of a draft model have."""
    if draft.compilation is None:
        return costs
    room = min(costs.kv_capacity_tokens, kv_capacity_tokens(draft.compilation.program))
    return replace(costs, kv_capacity_tokens=room, most_users=max(1, room // costs.kv_block_tokens))


def _verify_passes(
    prepared: PreparedEstimate,
    compilation: Compilation,
    contexts: tuple[int, ...],
    machine: DraftMachine,
    result: DraftsResult,
) -> tuple[PassTime, ...]:
    """Return passes after each number of tokens, or after as many fewer as the context leaves a draft.

    ``compilation`` has the layer of a head too. Its time is in that of the draft, not in that of the pass.
    """
    tokens = result.draft_tokens + 1
    fabric = pass_fabric(prepared, compilation, tokens)
    reader, phase = RouteReader(fabric), fabric.program.verify[0]
    most = compilation.options.context - tokens
    ways_s, passes = machine.ways_s(tokens), []
    for context in contexts:
        cost = fabric.verify_cost(min(context, most))
        route = reader.route(phase, cost)
        time, busy_s, head_s = pass_time(reader, prepared.wafer, route), result.draft_s, 0.0
        if result.draft == HEAD:
            head_s = layer_cycles(fabric.program, phase, cost, prepared.spec.layer_count - 1) / prepared.wafer.clock_hz
            busy_s += _last_stage_cycles(reader, route) / prepared.wafer.clock_hz - head_s
        passes.append(PassTime(time.latency_s - head_s + result.draft_s + ways_s, max(time.busy_s, busy_s)))
    return tuple(passes)


def _last_stage_cycles(reader: RouteReader, route: Route) -> float:
    """Cycles of work of the region that a pass ends in."""
    last = next(visit.server for visit in reversed(route) if reader.servers[visit.server].kind == REGION)
    return busy_cycles([route])[last]
