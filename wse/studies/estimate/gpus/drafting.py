"""Speculative decoding on GPUs.

A pass verifies the drafts of all its users, which are also generated in one batch. A draft is
launched in one step with the pass that verifies it. Without a draft model, the draft is a head: a
copy of the model's last layer with its output table. A draft model is either split over all GPUs or
stored on a single GPU, whichever makes a token faster. The draft's weights and caches need memory
in addition to the model's weights and caches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.drafts.machine import DraftMachine, DraftSteps
from wse.serving.steady_state import PromptRounds
from wse.studies.estimate.drafts.best_drafts import Choose, UsersOfDrafts
from wse.studies.estimate.drafts.result import DraftPlaceResult
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.options.drafts.draft import HEAD, SAME


@dataclass(frozen=True, kw_only=True)
class DraftedGpus(GpuDeployment):
    """A model on GPUs with speculative decoding, with methods that return serving times.

    A decode round is the mean time in which each request gets one token. With speculative decoding,
    it is the duration of a verification pass and its draft passes, divided by the number of tokens
    that the verification pass yields.

    Attributes:
        steps_of: Function that returns the times of a verification pass and its draft passes for a
            mean number of users, which may be fractional.
    """

    steps_of: Callable[[float], DraftSteps]

    def pass_s(self, decoding: float, prompts: float) -> float:
        """Return the duration of a verification pass with its draft passes, in seconds.

        Args:
            decoding: Mean number of requests that decode in the pass, at least 1.
            prompts: Number of prompts that the pass reads; 0 or at least 1.
        """
        steps = self.steps_of(decoding)
        if not prompts:
            return steps.busy_s
        return self.prompt_rounds(decoding, prompts).round_s * steps.tokens_per_pass

    def decode_round_s(self, decoding: float) -> float:
        """Return the seconds per output token of each request while no prompts are processed.

        Args:
            decoding: Mean number of requests that decode concurrently.
        """
        return self.steps_of(decoding).token_s

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the number and duration of the rounds in which prompts are processed.

        A round is the time in which each decoding request gets one token. With speculative
        decoding, a verification pass yields several tokens, so it counts as several rounds. Reading
        a prompt lengthens a pass by the same time as without speculative decoding.

        Args:
            decoding: Mean number of requests that decode concurrently.
            prompts: Number of prompts that are processed in the same rounds.
        """
        plain, steps = self.without_drafts.prompt_rounds(decoding, prompts), self.steps_of(max(1.0, decoding))
        pass_s = plain.round_s
        if decoding:
            extra_s = plain.round_s - self.without_drafts.decode_round_s(decoding)
            pass_s = min(1.0, decoding) * steps.busy_s + extra_s
        tokens_per_pass = steps.tokens_per_pass
        return plain._replace(
            rounds=plain.rounds * tokens_per_pass, round_s=max(plain.round_s, pass_s) / tokens_per_pass
        )

    @cached_property
    def without_drafts(self) -> GpuDeployment:
        """The same GPUs without speculative decoding."""
        return GpuDeployment(server=self.server, shape=self.shape, economics=self.economics)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDrafter:
    """GPUs that serve a model with speculative decoding.

    This class implements `wse.studies.estimate.drafts.best_drafts.Drafter`.
    """

    prepared: PreparedGpuEstimate

    @property
    def plain(self) -> GpuDeployment:
        """The model on its GPUs without speculative decoding."""
        return self.prepared.deployment

    def machine(self, users: float) -> DraftMachine:
        """Return the times of drafting and of verification, halfway through the answer.

        The speed-up does not have a single peak: with more draft tokens, it may fall and then rise
        again. Above a certain number of tokens, vectors are too long for a one-shot all-reduce, and
        further draft tokens cost less than the first ones.

        Args:
            users: Number of users whose drafts are verified in one pass.
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
        """Return the description of the model on its GPUs with speculative decoding.

        Args:
            choose: Function from `in_a_row` or `as_tree` that computes the time of a pass with a
                certain number or tree of draft tokens. It is called for each number of users.
        """
        plain = self.plain
        return DraftedGpus(
            server=self.prepared.server,
            shape=plain.shape,
            economics=plain.economics,
            steps_of=lambda users: choose(self.machine(users)),
        )


def gpu_draft_place(prepared_estimate: PreparedGpuEstimate) -> DraftPlaceResult:
    """Describe the draft head or draft model of a request, which runs on the model's GPUs."""
    return DraftPlaceResult(draft=str(prepared_estimate.request.drafts.draft_model or HEAD), place=SAME)


def gpu_draft_users(prepared_estimate: PreparedGpuEstimate) -> UsersOfDrafts:
    """Return the users of a request and the GPUs that serve them with its drafts."""
    drafter = GpuDrafter(prepared=prepared_estimate)
    return UsersOfDrafts(drafter=drafter, users=prepared_estimate.users, replicas=prepared_estimate.replicas)
