"""GPUs that decode by passes which verify drafts of a head, or of a model on the same GPUs.

All users of a pass have their drafts verified in it, and their drafts made together. A draft is launched in one step
with the pass that verifies it. Where no draft model is named it is a head of the model's last layer with its output
table. A draft model is cut over all GPUs or is on one of them, whichever makes a token sooner. Its weights and caches,
and those of a head, take room beside the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.drafts.machine import DraftMachine, DraftSteps
from wse.serving.steady_state import PromptRounds
from wse.studies.estimate.drafts.best_drafts import Choose
from wse.studies.estimate.drafts.result import DraftPlaceResult
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.options.draft import HEAD, SAME


@dataclass(frozen=True, kw_only=True)
class DraftedGpus(GpuDeployment):
    """GPUs that decode by passes which verify drafts.

    A round is the time of a token: that of a pass and its drafts over the tokens that the pass yields.

    Attributes:
        steps_of: Returns the pass with its drafts for a number of users, which may be a fraction.
    """

    steps_of: Callable[[float], DraftSteps]

    def wait_s(self, others: float) -> float:
        """Return half of a pass of others with its drafts, which is under way when a request arrives."""
        steps = self.steps_of(max(1.0, others))
        return min(1.0, others) * steps.busy_s / 2

    def decode_round_s(self, decoding: float) -> float:
        """Return the seconds of a token of each of some requests, without the prompts of others."""
        return self.steps_of(decoding).token_s

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the passes that read a prompt, each longer than one without by as much as without drafts.

        A pass is as many rounds as the tokens that it yields.
        """
        plain, steps = self.without_drafts.prompt_rounds(decoding, prompts), self.steps_of(max(1.0, decoding))
        pass_s = plain.round_s
        if decoding:
            extra_s = plain.round_s - self.without_drafts.decode_round_s(decoding)
            pass_s = min(1.0, decoding) * steps.busy_s + extra_s
        rounds = steps.tokens_per_pass
        return plain._replace(rounds=plain.rounds * rounds, round_s=max(plain.round_s, pass_s) / rounds)

    @cached_property
    def without_drafts(self) -> GpuDeployment:
        """The same GPUs without drafts."""
        return GpuDeployment(server=self.server, shape=self.shape, economics=self.economics)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDrafter:
    """The GPUs of a request with drafts; see `wse.studies.estimate.drafts.best_drafts.Drafter`."""

    prepared: PreparedGpuEstimate

    @property
    def plain(self) -> GpuDeployment:
        """The GPUs without drafts, with room for the draft's weights and caches."""
        return self.prepared.deployment

    def machine(self, users: float) -> DraftMachine:
        """Return the times of passes of a number of users in the middle of their answers.

        Draft tokens that make vectors too long for a one-shot all-reduce cost less than the draft tokens before them,
        so the speed-up over draft lengths may have two peaks.
        """
        server, context = self.prepared.server, self.prepared.middle_context
        draft = server.draft
        assert draft is not None  # the request asks for drafts
        return DraftMachine(
            verify_s=lambda tokens: server.verify_s(users, tokens, context),
            draft_s=lambda tokens: draft.draft_s(users, tokens, context),
            has_one_peak=False,
        )

    def deployment(self, choose: Choose) -> DraftedGpus:
        """Return the GPUs with drafts."""
        plain = self.plain
        return DraftedGpus(
            server=plain.server,
            shape=plain.shape,
            economics=plain.economics,
            steps_of=lambda users: choose(self.machine(users)),
        )


def gpu_draft_place(prepared: PreparedGpuEstimate) -> DraftPlaceResult:
    """Return what drafts for a request: a head or a model, on the GPUs of the model."""
    return DraftPlaceResult(draft=HEAD if prepared.draft_model is None else prepared.draft_model, place=SAME)
