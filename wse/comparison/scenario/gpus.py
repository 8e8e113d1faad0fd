"""Combinations on GPUs: a placement loaded once, with drafts as `wse.studies.estimate.gpu_drafting` times them."""

from __future__ import annotations

from dataclasses import dataclass, field

from wse.comparison.compare.curve.gpus import GpuMachine
from wse.comparison.compare.curve.machine import Machine, Service
from wse.comparison.scenario.drafting import DraftSteps, acceptance_of_draft, draft_steps
from wse.comparison.scenario.form import DraftForm
from wse.comparison.scenario.machine import Drafted
from wse.comparison.scenario.placement import Placement, with_draft
from wse.comparison.scenario.result import CombinationResult
from wse.comparison.scenario.variants import combinations_on
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.hardware.number import weakest
from wse.models.tensors.model_tensors import parameter_count
from wse.request.acceptance_option import DraftAcceptance
from wse.request.gpu_estimate_request import prepare_gpu_estimate
from wse.serving.economics import load_gpu_economics
from wse.serving.gpu_cost import gpu_cost, gpu_energy
from wse.serving.network import load_network
from wse.studies.estimate.drafting import COST_GRADE
from wse.studies.estimate.gpu_drafting import gpu_draft_machine
from wse.studies.estimate.gpus import batch_result, gpu_grade


@dataclass(frozen=True, kw_only=True)
class DraftedGpus(GpuMachine):
    """GPUs whose users' tokens are drafted, for each number of users as a scenario asks for."""

    acceptance: DraftAcceptance
    draft: DraftForm
    _known: dict[int, DraftSteps] = field(default_factory=dict, repr=False, compare=False)

    def steps(self, users: int) -> DraftSteps:
        """The drafts of so many users."""
        if users not in self._known:
            self._known[users] = draft_steps(gpu_draft_machine(self.prepared, users), self.acceptance, self.draft)
        return self._known[users]

    def service(self, batch: int) -> Service:
        """The rates and the cost of so many users."""
        tpot_s = self.steps(batch).token_s
        rate = batch / tpot_s
        return Service(
            tokens_per_s_per_user=1 / tpot_s,
            tokens_per_s=rate,
            exact=True,
            cost=gpu_cost(self.chips, rate, self.economics),
            energy=gpu_energy(self.chips, rate, self.economics),
        )


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
        "chips": server.parallelism.gpus,
    }
    economics = load_gpu_economics(server.gpu, prepared.economics)
    if economics is None:
        message = (
            f"{server.gpu.name}: nobody states its price and power; give gpu_usd_per_hour and gpu_power_w in [prices]"
        )
        raise BadInput(message)
    plain = GpuMachine(prepared=prepared, economics=economics)
    grade = gpu_grade(prepared).grade

    def drafted(draft: DraftForm) -> Drafted:
        acceptance = acceptance_of_draft(draft)
        if acceptance is None:
            return Drafted(machine=plain, grade=grade)
        asked = prepare_gpu_estimate(with_draft(placement.request, draft))
        machine = DraftedGpus(prepared=asked, economics=economics, acceptance=acceptance, draft=draft)
        grades = grade, acceptance.curve.grade, COST_GRADE
        return Drafted(machine=machine, grade=weakest(grades), steps=machine.steps)

    def ttft_s(machine: Machine, users: int) -> float:
        return batch_result(prepared, users, economics).ttft_s + load_network().seconds

    return combinations_on(placement, drafted, ttft_s, facts)
