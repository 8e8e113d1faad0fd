"""Combinations on wafers: a placement compiled once, its drafts timed by passes that are compiled for them.

Rounds are those of `wse.serving.wafer_deployment`. With drafts a token takes the time of a pass over drafts and
of the drafts, over the tokens that it yields. Stages of a pipeline are taken to share a pass over drafts as they share
a plain one, and each to wait for the drafts of a head, which is on the model's PEs: an upper bound of the load.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from wse.comparison.scenario.drafting import DraftSteps, acceptance_of_draft, draft_steps
from wse.comparison.scenario.form import DraftForm, Place
from wse.comparison.scenario.machine import Drafted
from wse.comparison.scenario.placement import Placement, with_draft
from wse.comparison.scenario.result import CombinationResult
from wse.comparison.scenario.variants import combinations_on
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.hardware.number import weakest
from wse.models.tensors.model_tensors import parameter_count
from wse.request.draft_option import HEAD
from wse.request.prepare_estimate import prepare_estimate
from wse.serving.draft_tree import DraftMachine
from wse.serving.speculation import TYPICAL
from wse.serving.wafer_deployment import WaferDeployment
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.draft_placement import PlacedDraft, place_draft
from wse.studies.estimate.draft_plan import acceptance_result
from wse.studies.estimate.drafting import COST_GRADE, machine_of
from wse.studies.estimate.estimate import timed_estimate
from wse.studies.estimate.result import EstimateResult


def wafer_combinations(placement: Placement) -> tuple[CombinationResult, ...]:
    """All combinations of a placement on wafers; with the reason where they cannot be."""
    try:
        prepared = prepare_estimate(placement.request)
        compilation = compile_fastest(prepared)
    except UnknownName:
        raise
    except (DoesNotFit, BadInput) as error:
        return placement.impossible(str(error))
    if prepared.new_tokens < 2:
        return placement.impossible("an answer of one token decodes none: give new_tokens of at least 2")
    timed = timed_estimate(prepared, compilation.program)
    result, plain = timed.result, timed.deployment
    facts = {
        "model": result.model.name,
        "parameters": parameter_count(prepared.spec),
        "dtype": result.model.dtype,
        "chip": result.wafer.name,
        "chips": result.system.wafers,
    }
    if not plain.max_concurrency:
        return placement.impossible(f"the KV cache of {plain.shape.tokens:,} tokens does not fit", **facts)
    assert result.decode is not None  # tokens are decoded
    grade = result.grades["decode.tokens_per_s_per_user"].grade

    @cache
    def placed(model: str | None, place: Place) -> tuple[PlacedDraft, DraftMachine]:
        draft = DraftForm(acceptance=TYPICAL, model=model, place=place)  # of which no acceptance is asked for here
        asked = prepare_estimate(replace(with_draft(prepared.request, draft), wafers=prepared.options.wafers))
        found = place_draft(asked, compilation)
        return found, machine_of(prepared, compilation, found)

    def drafted(draft: DraftForm) -> Drafted:
        acceptance = acceptance_of_draft(draft)
        if acceptance is None:
            return Drafted(machine=plain, grade=grade)
        own, machine = placed(draft.model, draft.place)
        steps = draft_steps(machine, acceptance, draft)
        accepted = acceptance_result(acceptance, own.name, prepared.spec.name)
        return Drafted(
            machine=_with_drafts(plain, result, steps, own),
            grade=weakest((grade, accepted.acceptance_grade, COST_GRADE)),
            steps=lambda _: steps,
            accepted=accepted,
        )

    return combinations_on(placement, drafted, prepared.network.seconds, facts)


def _with_drafts(
    plain: WaferDeployment, result: EstimateResult, steps: DraftSteps, draft: PlacedDraft
) -> WaferDeployment:
    """Return wafers with drafts, those of a draft model on wafers of its own included."""
    schedule = result.schedule
    assert schedule is not None  # tokens are decoded
    mean = plain.token_s / steps.plain_s  # drafts are timed in the middle of an answer, the rate is of all of it
    work = steps.check_s / steps.plain_s / steps.tokens_per_pass
    drafts_s = mean * steps.drafts_s / steps.tokens_per_pass
    stage_s = work * plain.stage_s + (drafts_s if draft.name == HEAD else 0.0)
    return replace(
        plain,
        chips=plain.chips + (draft.wafers if steps.draft_tokens else 0),
        token_s=plain.token_s / steps.gain,
        stage_s=max(drafts_s, stage_s),
    )
