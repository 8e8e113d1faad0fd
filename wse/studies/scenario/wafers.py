"""Combinations on wafers: a placement compiled for each number of users, as `wse estimate --users` does."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.models.tensors.model_tensors import parameter_count
from wse.serving.drafts.speculation import TYPICAL
from wse.serving.goal import Goal
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.drafting import WaferDrafter, wafer_drafter
from wse.studies.estimate.drafts.placement import place_draft
from wse.studies.estimate.drafts.plan import acceptance_result
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.study import timed_estimate
from wse.studies.options.option import replace_options
from wse.studies.scenario.drafting import acceptance_of_draft
from wse.studies.scenario.form import DraftForm, Place
from wse.studies.scenario.machine import LaidOut, ScenarioDraft
from wse.studies.scenario.placement import Placement, with_draft
from wse.studies.scenario.result import CombinationResult
from wse.studies.scenario.variants import combinations_on


def wafer_combinations(placement: Placement) -> tuple[CombinationResult, ...]:
    """Return all combinations of a placement on wafers; with the reason where they cannot be."""

    @cache
    def lay_out(goal: Goal) -> LaidOut:
        asked = prepare_estimate(replace_options(placement.request, users=goal.users, objective=goal.objective))
        return _laid_out(choose_layout(asked, compile_fastest, goal))

    try:
        prepared = prepare_estimate(placement.request)
        if prepared.new_tokens < 2:
            return placement.impossible("an answer of one token decodes none: give new_tokens of at least 2")
        lay_out(Goal(users=prepared.options.batch))  # kept for the combinations of as many users
    except UnknownName:
        raise
    except (DoesNotFit, BadInput) as error:
        return placement.impossible(str(error))
    facts = {
        "model": prepared.spec.name,
        "parameters": parameter_count(prepared.spec),
        "dtype": prepared.options.dtype,
        "chip": prepared.wafer.name,
        "chips": prepared.options.wafers,
    }
    return combinations_on(placement, lay_out, prepared.network.seconds, facts)


def _laid_out(layout: ChosenLayout) -> LaidOut:
    """Return a compiled layout as a scenario has it."""
    prepared, compilation = layout.prepared, layout.compilation
    timed = timed_estimate(prepared, compilation.program)

    @cache
    def drafter(model: str | None, place: Place) -> tuple[str, WaferDrafter]:
        draft = DraftForm(acceptance=TYPICAL, model=model, place=place)  # of which no acceptance is asked for here
        asked = prepare_estimate(replace(with_draft(prepared.request, draft), wafers=prepared.options.wafers))
        placed = place_draft(asked, compilation)
        return placed.name, wafer_drafter(prepared, compilation, placed, timed.deployment)

    def place(draft: DraftForm) -> ScenarioDraft:
        acceptance, (name, wafers) = acceptance_of_draft(draft), drafter(draft.model, draft.place)
        assert acceptance is not None  # `LaidOut` asks for no other
        accepted = acceptance_result(acceptance, name, prepared.spec.name)
        return ScenarioDraft(acceptance=acceptance, accepted=accepted, drafter=wafers)

    grade = timed.result.grades["decode.tokens_per_s_per_user"].grade
    return LaidOut(plain=timed.deployment, grade=grade, place=place)
