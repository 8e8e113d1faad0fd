"""Drafts of a serving simulation: their acceptance, and the times of verification passes.

The times of drafts and of token-id exchange refer to the context in the middle of a mean-length
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from wse.compiler.search.search import Compilation
from wse.reports.result import Doc
from wse.serving.simulation.costs.staged_costs import DecodeGrid, PassTime, StagedCosts
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.drafts.drafting import WaferDrafter, wafer_drafter
from wse.studies.estimate.drafts.placement import PlacedDraft, place_draft
from wse.studies.estimate.drafts.plan import acceptance_result, place_result
from wse.studies.estimate.drafts.result import AcceptanceResult, DraftPlaceResult
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.drafts.acceptance import DraftAcceptance
from wse.studies.options.drafts.draft import HEAD
from wse.studies.results.sram import kv_capacity_tokens
from wse.studies.serve_sim.machines.wafer_costs import wafer_costs


class DraftsResult(AcceptanceResult, DraftPlaceResult):
    """Draft tokens (speculative decoding) of a simulated service: acceptance and times.

    All times are for a decode pass whose context has the mean length: the prompt plus half of the
    answer.
    """

    grade: Annotated[str, Doc("evidence grade of the acceptance for this draft")]
    draft_tokens: Annotated[int, Doc("draft tokens per pass; 0 if drafts would not increase the speed")]
    tokens_per_pass: Annotated[float, Doc("mean tokens per pass, from the acceptance")]
    draft_s: Annotated[float, Doc("time to make a draft", "s")]
    verify_s: Annotated[float, Doc("time of the pass that verifies it, including the exchange of token ids", "s")]


def drafts_result(
    acceptance: DraftAcceptance, users: UsersOfDrafts, draft_tokens: int | None, place: DraftPlaceResult, model: str
) -> DraftsResult:
    """Return the number of draft tokens per pass, and the times to make and to verify them.

    Args:
        acceptance: Probability that a draft token is accepted, for each position.
        users: The users and the machine, for which the fastest number of draft tokens is computed.
        draft_tokens: Number of tokens per draft. None selects the fastest number.
        place: The draft model and where it runs.
        model: Name of the model that verifies the drafts.
    """
    curve, accepted, machine = acceptance.curve, acceptance_result(acceptance, place.draft, model), users.machine
    tokens = users.best_row(curve)[0] if draft_tokens is None else draft_tokens
    return DraftsResult(
        **vars(accepted),
        **vars(place),
        grade=accepted.acceptance_grade,
        draft_tokens=tokens,
        tokens_per_pass=curve.at(tokens),
        draft_s=tokens * machine.draft_s(1),
        verify_s=machine.check_s(tokens) if tokens else machine.verify_s(1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedCosts:
    """A compiled model and the times of its passes, which verify drafts if there are any.

    Attributes:
        compilation: The compiled model. It includes the draft head (an additional layer) if there
            is one.
        costs: Times of its passes, and its KV-cache capacity.
        drafts: The drafts, or None.
    """

    compilation: Compilation
    costs: StagedCosts
    drafts: DraftsResult | None


def drafted_costs(
    prepared_estimate: PreparedEstimate, compilation: Compilation, draft_tokens: int | None
) -> DraftedCosts:
    """Return the times of decode and prefill passes. They use drafts if this increases the speed.

    Drafts are used only if they are requested. A draft head is an additional layer of the model. It
    also processes prompts, and its KV cache reduces the capacity for users. A separate draft model
    has its own KV cache, whose capacity limits the number of tokens too.

    Args:
        prepared_estimate: The validated request.
        compilation: The model without a draft head.
        draft_tokens: Number of tokens per draft. None selects the fastest number for the requested
            users, or for one batch if the request specifies no users.

    Raises:
        BadInput: The draft model cannot be used. The subclass indicates why.
        DoesNotFit: The draft does not fit in its place.
    """
    plain = DraftedCosts(compilation=compilation, costs=wafer_costs(prepared_estimate, compilation), drafts=None)
    if prepared_estimate.acceptance is None or prepared_estimate.new_tokens < 2:
        return plain
    draft, goal = place_draft(prepared_estimate, compilation), prepared_estimate.goal
    deployment = timed_deployment(prepared_estimate, compilation.program)
    drafter = wafer_drafter(prepared_estimate, compilation, draft, deployment)
    replicas = goal.replicas_for(drafter.max_concurrency)
    users = UsersOfDrafts(drafter=drafter, users=goal.users or prepared_estimate.options.batch, replicas=replicas)
    result = drafts_result(
        prepared_estimate.acceptance, users, draft_tokens, place_result(draft), prepared_estimate.spec.name
    )
    if not result.draft_tokens:
        return replace(plain, drafts=replace(result, wafers=0))
    if draft.name == HEAD and draft.compilation is not None:
        compilation, costs = draft.compilation, wafer_costs(draft.prepared, draft.compilation)
    else:
        costs = _with_draft_caches(plain.costs, draft)
    grid = DecodeGrid(contexts=costs.contexts, passes=_verify_passes(drafter, costs.contexts, result))
    return DraftedCosts(compilation=compilation, costs=replace(costs, decode=grid), drafts=result)


def _with_draft_caches(costs: StagedCosts, draft: PlacedDraft) -> StagedCosts:
    """Limit the KV-cache capacity of the costs to that of the draft model, and return a copy.

    A draft model on the host does not limit the capacity.
    """
    if draft.compilation is None:
        return costs
    room = min(costs.kv_capacity_tokens, kv_capacity_tokens(draft.compilation.program))
    return replace(costs, kv_capacity_tokens=room, max_users=max(1, room // costs.kv_block_tokens))


def _verify_passes(drafter: WaferDrafter, contexts: tuple[int, ...], result: DraftsResult) -> tuple[PassTime, ...]:
    """Return the time to make a draft and to verify it, for each context length.

    Args:
        drafter: Times of drafts and verification passes.
        contexts: Numbers of cached tokens before the pass. If the model's context has no room for
            the draft after them, a shorter context is timed.
        result: The drafts.
    """
    tokens, passes = result.draft_tokens + 1, []
    beside_s = result.draft_s + drafter.times.transit_s(tokens)
    for context in contexts:
        pass_times = drafter.passes.pass_after(context, tokens)
        busy_s = pass_times.busy_with(result.draft_s, on_last_stage=result.draft == HEAD)
        passes.append(PassTime(pass_times.model_s + beside_s, busy_s))
    return tuple(passes)
