"""``drafts`` of an estimate: the best number of draft tokens and the best draft tree."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.search.search import Compilation
from wse.errors import DoesNotFit
from wse.hardware.number import weakest
from wse.reports.number_text import plural
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.drafts.speculation import HEAD_KIND, MODEL_KIND, choice_frequencies
from wse.studies.compile.draft_times import host_memory_rate
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts, in_a_row
from wse.studies.estimate.drafts.draft_machine import head_token_parts
from wse.studies.estimate.drafts.drafting import COST_GRADE, WaferDrafter, wafer_drafter
from wse.studies.estimate.drafts.placement import PlacedDraft, place_draft
from wse.studies.estimate.drafts.result import (
    AcceptanceResult,
    DraftLengthResult,
    DraftPlaceResult,
    DraftPlanResult,
    DraftRegionResult,
    DraftTreeResult,
)
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.drafts.acceptance import DraftAcceptance
from wse.studies.options.drafts.draft import HEAD, HOST
from wse.studies.results.operating_points import ServingResult, point_result


def draft_plan(
    prepared_estimate: PreparedEstimate,
    compilation: Compilation,
    plain: WaferDeployment,
    serving: ServingResult,
) -> DraftPlanResult | None:
    """Find the configuration of speculative decoding with which users get the most tokens/s.

    Args:
        prepared_estimate: The request.
        compilation: The compiled model.
        plain: Deployment on wafers without speculative decoding.
        serving: Speed and cost without speculative decoding.

    Returns:
        The best number of draft tokens and the best draft tree. None if the request has no
        ``--draft`` option or decodes nothing.

    Raises:
        BadInput: The draft model cannot be used, or has a different vocabulary.
        DoesNotFit: The draft model or head does not fit where it is to run, or leaves no room for
            the users' KV caches.
    """
    if prepared_estimate.acceptance is None or serving.tpot_s is None:
        return None
    draft = place_draft(prepared_estimate, compilation)
    drafter = wafer_drafter(prepared_estimate, compilation, draft, plain)
    users = UsersOfDrafts(drafter=drafter, users=serving.users, replicas=serving.replicas)
    _check_room(drafter, serving)
    plan = plan_of(prepared_estimate.acceptance, users, place_result(draft), prepared_estimate.spec.name)
    if draft.name == HEAD and draft.compilation is not None:
        plan = replace(plan, token_s_with_room_for_head=head_token_parts(draft)[0])
    return plan


def _check_room(drafter: WaferDrafter, serving: ServingResult) -> None:
    """Check that the users' KV caches fit in addition to the draft model or head.

    If users pause, they may wait for room, so that room for one on each replica is enough.

    Raises:
        DoesNotFit: There is not enough room.
    """
    room = serving.replicas * drafter.max_concurrency
    if (serving.users if serving.think_s is None else serving.replicas) > room:
        tokens = serving.prompt_tokens + serving.new_tokens
        raise DoesNotFit(
            f"--draft: with the draft, KV caches of {plural(room, 'sequence')} of {tokens:,} tokens fit, but there are "
            f"{serving.users:,} users; give --users {max(1, room)}, more --wafers, or leave out --draft"
        )


def place_result(draft: PlacedDraft) -> DraftPlaceResult:
    """Create the record of the draft model or head and the place where it runs."""
    region, memory = draft.region, host_memory_rate()
    return DraftPlaceResult(
        draft=draft.name,
        place=draft.place,
        wafers=draft.wafers,
        region=None if region is None else DraftRegionResult(wafer=region.wafer, **region.rect._asdict()),
        host=f"{memory.value / 1e9:g} GB/s of memory ({memory.grade}): {memory.source}"
        if draft.place == HOST
        else None,
    )


def acceptance_result(acceptance: DraftAcceptance, draft: str, model: str) -> AcceptanceResult:
    """Create the record of how often draft tokens are accepted, with source and evidence grade.

    Args:
        acceptance: Probabilities that draft tokens are accepted.
        draft: `HEAD`, or the name of a draft model.
        model: Name of the model that verifies the draft tokens.
    """
    curve, kind = acceptance.curve, HEAD_KIND if draft == HEAD else MODEL_KIND
    return AcceptanceResult(
        acceptance=curve.model,
        acceptance_by_position=acceptance.by_position,
        acceptance_draft_tokens=curve.draft_tokens,
        acceptance_kind=curve.kind,
        acceptance_measured_with=curve.measured_with,
        acceptance_grade=curve.grade_for(kind, model),
        acceptance_note=curve.mismatch(kind, model),
        source=curve.source,
    )


def plan_of(acceptance: DraftAcceptance, users: UsersOfDrafts, place: DraftPlaceResult, model: str) -> DraftPlanResult:
    """Find the number of draft tokens and the draft tree with the highest speed-up for users.

    Args:
        acceptance: Probabilities that draft tokens are accepted.
        users: The users, and the wafers or GPUs that serve them.
        place: The draft model or head, and the place where it runs.
        model: Name of the model that verifies the draft tokens.

    Returns:
        The best number of sequential draft tokens, the speed-up for each number up to one more
        than the best, and the best draft tree.
    """
    curve, machine = acceptance.curve, users.machine
    draft_tokens, gain = users.best_row(curve)
    tree, tree_gain = users.best_tree(acceptance)
    max_draft_tokens = min(draft_tokens + 1, max(curve.draft_tokens))
    accepted = acceptance_result(acceptance, place.draft, model)
    rows = {n: (machine.row(curve, n), users.speed_up(in_a_row(curve, n))) for n in range(1, max_draft_tokens + 1)}
    chosen_row = in_a_row(curve, draft_tokens)
    point = point_result(users.point(chosen_row) if draft_tokens else users.plain)
    deployment = users.drafter.deployment(chosen_row) if draft_tokens else users.drafter.plain
    assert point.tokens_per_s_per_user is not None  # tokens are decoded
    return DraftPlanResult.from_parts(
        accepted,
        place,
        point,
        grade=weakest((accepted.acceptance_grade, choice_frequencies().grade, COST_GRADE)),
        draft_tokens=draft_tokens,
        speed_up=gain,
        max_users=users.replicas * deployment.max_concurrency,
        lengths=tuple(
            DraftLengthResult(
                draft_tokens=n,
                tokens_per_pass=steps.tokens_per_pass,
                draft_s=steps.drafts_s,
                verify_s=steps.check_s,
                speed_up=speed_up,
            )
            for n, (steps, speed_up) in rows.items()
        ),
        tree=None if tree is None else DraftTreeResult.from_parts(tree, nodes=len(tree.parents), speed_up=tree_gain),
    )
