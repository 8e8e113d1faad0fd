"""``drafts`` of an estimate: the number of draft tokens and the tree of them that gain most, and what they rest on."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.hardware.number import weakest
from wse.request.acceptance_option import DraftAcceptance
from wse.request.draft_option import HEAD, HOST
from wse.request.prepare_estimate import PreparedEstimate
from wse.search.search import Compilation
from wse.serving.cost import system_cost, system_energy
from wse.serving.draft_tree import DraftMachine, DraftTree, fastest_tree
from wse.serving.economics import Economics
from wse.serving.speculation import HEAD_KIND, MODEL_KIND, choice_shares, speed_up
from wse.studies.compile.draft_times import host_memory_rate
from wse.studies.estimate.draft_placement import PlacedDraft, place_draft
from wse.studies.estimate.draft_result import (
    AcceptanceResult,
    DraftLengthResult,
    DraftPlaceResult,
    DraftPlanResult,
    DraftRegionResult,
    DraftTreeResult,
)
from wse.studies.estimate.drafting import COST_GRADE, HeadPasses, best_drafting, machine_of
from wse.studies.results.operating_points import ServingResult

TREE_NODES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Nodes of the trees that are tried."""


def draft_plan(
    prepared: PreparedEstimate, compilation: Compilation, serving: ServingResult | None
) -> DraftPlanResult | None:
    """Return the best drafts of a request; None where it asks for none, or decodes nothing.

    Args:
        prepared: The request.
        compilation: Its model.
        serving: The operating point without drafts; None where nothing is decoded.

    Raises:
        BadInput and its kinds: the draft model cannot be used, or has another vocabulary.
        DoesNotFit: the draft does not fit in its place.
    """
    if prepared.acceptance is None or serving is None or serving.tpot_s is None:
        return None
    draft = place_draft(prepared, compilation)
    machine, place = machine_of(prepared, compilation, draft), place_result(draft)
    plan = plan_of(prepared.acceptance, machine, place, prepared.spec.name)
    plan = replace(plan, tokens_per_s_per_user=plan.speed_up / serving.tpot_s)
    if draft.name == HEAD and draft.compilation is not None:
        plan = replace(plan, token_s_with_room_for_head=HeadPasses(draft.prepared, draft.compilation).model_s(1))
    wafers = plan.gain.wafers(compilation.program.wafers)
    return with_cost(plan, wafers, serving, prepared.economics)


def with_cost(plan: DraftPlanResult, machines: int, serving: ServingResult, economics: Economics) -> DraftPlanResult:
    """Return a plan with the cost and energy of its tokens; as it is where no drafts gain.

    By Little's law the rate of requests is the users over the time of a request, in which drafts shorten the answer.
    Where prompts saturate the machine, drafts do not change the rate.

    Args:
        plan: The plan.
        machines: Wafers or GPUs, those of the draft included.
        serving: The operating point without drafts.
        economics: Power and price of a machine.
    """
    if not plan.draft_tokens or serving.tpot_s is None:
        return plan
    request_s = serving.ttft_s + (serving.new_tokens - 1) * serving.tpot_s / plan.speed_up
    rate = serving.tokens_per_s if serving.saturated else serving.users * serving.new_tokens / request_s
    return replace(
        plan,
        usd_per_million_tokens=system_cost(machines, rate, economics).value,
        joules_per_token=system_energy(machines, rate, economics).value,
    )


def place_result(draft: PlacedDraft) -> DraftPlaceResult:
    """Return what results report of a draft on wafers."""
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
    """Return what results report of an acceptance.

    Args:
        acceptance: The acceptance.
        draft: What drafts: `HEAD`, or a draft model.
        model: The model that verifies the draft tokens.
    """
    curve, kind = acceptance.curve, HEAD_KIND if draft == HEAD else MODEL_KIND
    return AcceptanceResult(
        acceptance=curve.model,
        acceptance_by_position=acceptance.by_position,
        acceptance_kind=curve.kind,
        acceptance_measured_with=curve.measured_with,
        acceptance_grade=curve.grade_for(kind, model),
        acceptance_note=curve.mismatch(kind, model),
        source=curve.source,
    )


def plan_of(acceptance: DraftAcceptance, machine: DraftMachine, place: DraftPlaceResult, model: str) -> DraftPlanResult:
    """Return the best drafts by an acceptance for a machine of any kind.

    Args:
        acceptance: The acceptance.
        machine: The times of the model and its draft.
        place: What drafts, and where.
        model: The model that verifies the draft tokens.
    """
    curve = acceptance.curve
    best = best_drafting(curve, machine)
    tree, gain = fastest_tree(acceptance.shares, machine, TREE_NODES)
    most = min(best.draft_tokens + 1, max(curve.draft_tokens))
    plain_s = machine.verify_s(1)
    accepted = acceptance_result(acceptance, place.draft, model)
    return DraftPlanResult(
        **vars(accepted),
        **vars(place),
        grade=weakest((accepted.acceptance_grade, choice_shares().grade, COST_GRADE)),
        draft_tokens=best.draft_tokens,
        speed_up=best.gain,
        tokens_per_s_per_user=best.gain / machine.token_s,
        lengths=tuple(
            DraftLengthResult(
                draft_tokens=n,
                tokens_per_pass=curve.at(n),
                draft_s=n * machine.draft_s(1),
                verify_s=machine.check_s(n),
                speed_up=speed_up(curve.at(n), n, best.draft_cost, machine.check_s(n) / plain_s, best.shared_cost),
            )
            for n in range(1, most + 1)
        ),
        tree=None if tree is None else _tree_result(tree, gain),
    )


def _tree_result(tree: DraftTree, gain: float) -> DraftTreeResult:
    return DraftTreeResult(
        nodes=len(tree.parents),
        depth=tree.depth,
        tokens_per_pass=tree.tokens_per_pass,
        speed_up=gain,
        parents=tree.parents,
        choices=tree.choices,
    )
