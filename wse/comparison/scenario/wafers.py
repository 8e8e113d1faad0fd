"""Combinations on wafers: a placement compiled once, its drafts timed by passes that are compiled for them.

Streams are those of `wse.comparison.compare.curve.wafers`. With drafts a token takes the time of a pass over drafts and
of the drafts, over the tokens that it yields. Stages of a pipeline are taken to share a pass over drafts as they share
a plain one, and each to wait for the drafts where these are made on the model's wafers: an upper bound of the load.
"""

from __future__ import annotations

from dataclasses import replace

from wse.comparison.compare.curve.machine import Machine
from wse.comparison.compare.curve.wafers import WaferMachine, wafer_machine
from wse.comparison.scenario.drafting import DraftSteps, acceptance_of_draft, draft_steps
from wse.comparison.scenario.form import DraftForm
from wse.comparison.scenario.machine import Drafted
from wse.comparison.scenario.placement import Placement, with_draft
from wse.comparison.scenario.result import CombinationResult
from wse.comparison.scenario.variants import combinations_on
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.hardware.number import Grade, weakest
from wse.models.tensors.model_tensors import parameter_count
from wse.request.draft_option import SAME, WAFER
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.draft_plan import compiled_draft
from wse.studies.estimate.drafting import COST_GRADE, head_machine, model_machine
from wse.studies.estimate.estimate import estimate_of
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
    result = estimate_of(prepared, compilation.program)
    facts = {
        "model": result.model.name,
        "parameters": parameter_count(prepared.spec),
        "dtype": result.model.dtype,
        "chips": result.system.wafers,
    }
    if result.decode is None:
        return placement.impossible("an answer of one token decodes none: give new_tokens of at least 2", **facts)
    plain = wafer_machine(result, prepared.economics, result.system.mapping, "", prepared.new_tokens, None)
    if isinstance(plain, str):
        return placement.impossible(plain, **facts)
    grade = result.grades["decode.tokens_per_s_per_user"].grade

    head = head_machine(prepared, compilation, result.decode)  # which keeps the passes that it has compiled

    def drafted(draft: DraftForm) -> Drafted:
        acceptance = acceptance_of_draft(draft)
        if acceptance is None:
            return Drafted(machine=plain, grade=grade)
        machine, wafers = (head, 0) if draft.model is None else _model_machine(prepared, compilation, draft)
        steps = draft_steps(machine, acceptance, draft)
        grades: tuple[Grade, ...] = (grade, acceptance.curve.grade, COST_GRADE)
        own = _with_drafts(plain, result, steps, wafers, on_same=draft.place == SAME)
        return Drafted(machine=own, grade=weakest(grades), steps=lambda _: steps)

    def ttft_s(machine: Machine, users: int) -> float:
        return result.latency.user.ttft_s

    return combinations_on(placement, drafted, ttft_s, facts)


def _model_machine(prepared: PreparedEstimate, compilation: Compilation, draft: DraftForm) -> tuple[DraftMachine, int]:
    """The times of a model and of a draft model, and how many wafers of its own that takes."""
    request = replace(with_draft(prepared.request, draft), wafers=prepared.options.wafers)
    asked = prepare_estimate(request)  # checks that the vocabularies are one
    own = compiled_draft(asked, str(draft.model), draft.place)
    wafers = own.compilation.program.wafers if draft.place == WAFER else 0
    return model_machine(prepared, compilation, own), wafers


def _with_drafts(
    plain: WaferMachine, result: EstimateResult, steps: DraftSteps, wafers: int, *, on_same: bool
) -> WaferMachine:
    """Wafers with drafts, and ``wafers`` more for the draft."""
    schedule = result.schedule
    assert schedule is not None  # tokens are decoded
    mean = plain.token_s / steps.plain_s  # drafts are timed in the middle of an answer, the rate is of all of it
    work = steps.check_s / steps.plain_s / steps.tokens_per_pass
    drafts_s = mean * steps.drafts_s / steps.tokens_per_pass
    beside_s = drafts_s if on_same else 0.0
    busy = [(server.prefill_busy_s, mean * work * server.decode_busy_s + beside_s) for server in schedule.servers]
    return replace(
        plain,
        chips=plain.chips + wafers,
        token_s=plain.token_s / steps.gain,
        busiest_token_s=max(drafts_s, *(decode for _, decode in busy)),
        busiest_request_s=max(prefill + plain.new_tokens * decode for prefill, decode in busy),
    )
