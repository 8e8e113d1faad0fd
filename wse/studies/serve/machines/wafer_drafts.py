"""Passes on wafers that verify drafts: compiled for so many tokens of a user, at each context of the grid.

The times of drafts and of ids in transit are those in the middle of a mean answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.compiler.search.search import Compilation
from wse.serving.simulation.staged_costs import DecodeGrid, PassTime, StagedCosts
from wse.studies.estimate.deployment import middle_deployment
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.drafts.drafting import WaferDrafter, wafer_drafter
from wse.studies.estimate.drafts.placement import PlacedDraft, place_draft
from wse.studies.estimate.drafts.plan import place_result
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.draft import HEAD
from wse.studies.results.sram import kv_capacity_tokens
from wse.studies.serve.machines.drafts import DraftsResult, drafts_result
from wse.studies.serve.machines.wafer_costs import wafer_costs


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


def drafted_costs(prepared: PreparedEstimate, compilation: Compilation, draft_tokens: int | None) -> DraftedCosts:
    """Return the costs of a request, with drafts where it asks for them and they gain.

    With a head, prompts pass through the head's layer too, and its cache takes room of the users'. With a draft model,
    no more tokens have room than in its caches.

    Args:
        prepared: The request.
        compilation: Its model.
        draft_tokens: The number of draft tokens; None for the one that gains most for the users of the request, or of
            one pass.

    Raises:
        BadInput and its kinds: the draft model cannot be used.
        DoesNotFit: the draft does not fit in its place.
    """
    plain = DraftedCosts(compilation=compilation, costs=wafer_costs(prepared, compilation), drafts=None)
    if prepared.acceptance is None or prepared.new_tokens < 2:
        return plain
    draft, goal = place_draft(prepared, compilation), prepared.goal
    deployment = middle_deployment(prepared, compilation.program)
    drafter = wafer_drafter(prepared, compilation, draft, deployment)
    replicas = goal.replicas_for(drafter.max_concurrency)
    users = UsersOfDrafts(drafter=drafter, users=goal.users or prepared.options.batch, replicas=replicas)
    result = drafts_result(prepared.acceptance, users, draft_tokens, place_result(draft), prepared.spec.name)
    if not result.draft_tokens:
        return replace(plain, drafts=replace(result, wafers=0))
    if draft.name == HEAD and draft.compilation is not None:
        compilation, costs = draft.compilation, wafer_costs(draft.prepared, draft.compilation)
    else:
        costs = _with_draft_caches(plain.costs, draft)
    grid = DecodeGrid(contexts=costs.contexts, passes=_verify_passes(drafter, costs.contexts, result))
    return DraftedCosts(compilation=compilation, costs=replace(costs, decode=grid), drafts=result)


def _with_draft_caches(costs: StagedCosts, draft: PlacedDraft) -> StagedCosts:
    """Return costs with no more room for tokens than the caches of a draft model have."""
    if draft.compilation is None:
        return costs
    room = min(costs.kv_capacity_tokens, kv_capacity_tokens(draft.compilation.program))
    return replace(costs, kv_capacity_tokens=room, most_users=max(1, room // costs.kv_block_tokens))


def _verify_passes(drafter: WaferDrafter, contexts: tuple[int, ...], result: DraftsResult) -> tuple[PassTime, ...]:
    """Return passes after each number of tokens, or after as many fewer as the context leaves a draft."""
    tokens, passes = result.draft_tokens + 1, []
    beside_s = result.draft_s + drafter.times.ways_s(tokens)
    for context in contexts:
        one = drafter.passes.after(context, tokens)
        busy_s = one.busy_with(result.draft_s, on_last_stage=result.draft == HEAD)
        passes.append(PassTime(one.model_s + beside_s, busy_s))
    return tuple(passes)
