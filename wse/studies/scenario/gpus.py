"""Combinations on GPUs: a placement loaded once, with drafts as `wse.studies.estimate.gpus.drafting` times them."""

from __future__ import annotations

from functools import cache

from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.models.tensors.model_tensors import parameter_count
from wse.serving.drafts.speculation import TYPICAL
from wse.serving.network import load_network
from wse.studies.estimate.drafts.plan import acceptance_result
from wse.studies.estimate.gpus.drafting import GpuDrafter, gpu_draft_place
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.gpus.study import gpu_grade
from wse.studies.scenario.drafting import acceptance_of_draft
from wse.studies.scenario.form import DraftForm
from wse.studies.scenario.machine import LaidOut, ScenarioDraft
from wse.studies.scenario.placement import Placement, with_draft
from wse.studies.scenario.result import CombinationResult
from wse.studies.scenario.variants import combinations_on


def gpu_combinations(placement: Placement) -> tuple[CombinationResult, ...]:
    """All combinations of a placement on GPUs; with the reason where they cannot be."""
    try:
        prepared = prepare_gpu_estimate(placement.request)
    except UnknownName:
        raise
    except (DoesNotFit, BadInput) as error:
        return placement.impossible(str(error))
    server = prepared.server
    facts = {
        "model": server.spec.name,
        "parameters": parameter_count(server.spec),
        "dtype": server.weights.name,
        "chip": server.gpu.name,
        "chips": server.parallelism.gpus,
    }
    economics = prepared.economics
    if economics is None:
        message = (
            f"{server.gpu.name}: nobody states its price and power; give gpu_usd_per_hour and gpu_power_w in [prices]"
        )
        raise BadInput(message)
    grade = gpu_grade(prepared).grade

    @cache
    def drafter(model: str | None) -> GpuDrafter:
        draft = DraftForm(acceptance=TYPICAL, model=model)  # of which no acceptance is asked for here
        return GpuDrafter(prepared=prepare_gpu_estimate(with_draft(placement.request, draft)))

    def place(draft: DraftForm) -> ScenarioDraft:
        acceptance, gpus = acceptance_of_draft(draft), drafter(draft.model)
        assert acceptance is not None  # `LaidOut` asks for no other
        accepted = acceptance_result(acceptance, gpu_draft_place(gpus.prepared).draft, server.spec.name)
        return ScenarioDraft(acceptance=acceptance, accepted=accepted, drafter=gpus)

    laid_out = LaidOut(plain=prepared.deployment, grade=grade, place=place)
    return combinations_on(placement, lambda goal: laid_out, load_network().seconds, facts)
