"""Combinations on GPUs: a placement loaded once, with drafts as `wse.studies.estimate.gpu_drafting` times them."""

from __future__ import annotations

from dataclasses import dataclass, field

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
from wse.request.gpu_estimate_request import PreparedGpuEstimate, prepare_gpu_estimate
from wse.serving.gpu_deployment import GpuDeployment
from wse.serving.network import load_network
from wse.serving.steady_state import PromptRounds
from wse.studies.estimate.draft_plan import acceptance_result
from wse.studies.estimate.drafting import COST_GRADE
from wse.studies.estimate.gpu_drafting import gpu_draft_machine, gpu_draft_place
from wse.studies.estimate.gpus import gpu_grade


@dataclass(frozen=True, kw_only=True)
class DraftedGpus(GpuDeployment):
    """GPUs whose users' tokens are drafted, for each number of users as a scenario asks for.

    A round is the time of a token: that of a pass and its drafts over the tokens that the pass yields. A prompt
    lengthens rounds by as much as without drafts.
    """

    prepared: PreparedGpuEstimate
    acceptance: DraftAcceptance
    draft: DraftForm
    _known: dict[int, DraftSteps] = field(default_factory=dict, repr=False, compare=False)

    def steps(self, users: int) -> DraftSteps:
        """Return the drafts of a number of users."""
        if users not in self._known:
            self._known[users] = draft_steps(gpu_draft_machine(self.prepared, users), self.acceptance, self.draft)
        return self._known[users]

    def decode_round_s(self, decoding: float) -> float:
        """Return the seconds of a token of each of some requests, without the prompts of others."""
        steps = self.steps(max(1, round(decoding)))
        return steps.token_s - steps.shared_s

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the passes that read a prompt, each longer than one without by as much as without drafts."""
        plain = super().prompt_rounds(decoding, prompts)
        if not decoding:
            return plain
        extra_s = plain.round_s - super().decode_round_s(decoding)
        return plain._replace(round_s=self.decode_round_s(decoding) + extra_s)


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
    plain = prepared.deployment
    grade = gpu_grade(prepared).grade

    def drafted(draft: DraftForm) -> Drafted:
        acceptance = acceptance_of_draft(draft)
        if acceptance is None:
            return Drafted(machine=plain, grade=grade)
        asked = prepare_gpu_estimate(with_draft(placement.request, draft))
        machine = DraftedGpus(
            server=asked.server,
            shape=plain.shape,
            economics=asked.economics,
            prepared=asked,
            acceptance=acceptance,
            draft=draft,
        )
        accepted = acceptance_result(acceptance, gpu_draft_place(asked).draft, server.spec.name)
        grades = grade, accepted.acceptance_grade, COST_GRADE
        return Drafted(machine=machine, grade=weakest(grades), steps=machine.steps, accepted=accepted)

    return combinations_on(placement, drafted, load_network().seconds, facts)
