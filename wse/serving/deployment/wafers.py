"""WaferDeployment: the rounds of a model on wafers, from the times of one pass and of one prompt.

A decode pass, which yields one token for each of its users, takes ``token_s`` to go through all
stages and keeps the busiest stage busy for ``stage_s``. With several passes in flight, a round
takes as long as one pass, or as long as the busiest stage works in it if that is longer.

Prompts are processed while the busiest stage would otherwise be idle. While prompts are waiting,
each round reads at least one chunk, and gives the prompt at least the time that one more decoding
request would get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape
from wse.serving.pausing_users import steady_state
from wse.serving.steady_state import ClosedLoop, PromptRounds, SteadyState


@dataclass(frozen=True, kw_only=True)
class WaferDeployment:
    """A model served on wafers in one layout, with timings that determine its performance.

    It implements `wse.serving.operating_point.Deployment`.

    Attributes:
        shape: Token counts of a request.
        max_concurrency: Maximum number of requests whose KV caches fit concurrently.
        chips: Number of wafers, including the wafers of a draft model.
        economics: Power and price of a wafer.
        slots: Users whose tokens are decoded in one pass.
        token_s: Duration of a pass through all stages in seconds, divided by the tokens that it
            yields per user.
        stage_s: Seconds that the busiest stage, link or draft works on a pass, divided by the same
            number of tokens.
        prompt_s: Seconds that the busiest stage works on one prompt.
        chunk_s: Seconds that the busiest stage works on one chunk of the prompt.
        delay_s: Seconds from the end of ``prompt_s`` to the first token of a single request: the
            path of the last chunk through the other stages, and the round trip to the host.
    """

    shape: RequestShape
    max_concurrency: int
    chips: int
    economics: Economics | None
    slots: int = 1
    token_s: float
    stage_s: float
    prompt_s: float
    chunk_s: float
    delay_s: float

    def decode_round_s(self, decoding: float) -> float:
        """Return the mean duration in seconds of a round in which no prompt is processed.

        A round is the time in which every decoding request gets one token. For a mean of 1.9
        requests, for example, the result is interpolated between rounds with 1 and 2 requests.

        Args:
            decoding: Mean number of requests that decode.
        """
        whole_requests = math.floor(decoding)
        more_s = max(self.token_s, self._work_s(whole_requests + 1))
        if more_s == self.token_s:  # also with fewer requests
            return more_s
        return more_s - (whole_requests + 1 - decoding) * (more_s - max(self.token_s, self._work_s(whole_requests)))

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the number and duration of rounds that process one prompt while others decode.

        A round is the time in which every decoding request gets one token.

        Args:
            decoding: Number of requests that decode in these rounds; may be 0.
            prompts: Unused, because prompts are processed sequentially.
        """
        work_s = self._work_s(decoding)
        gap_s = max(self.chunk_s, self.stage_s / self.slots, self.token_s - work_s)
        return PromptRounds(rounds=self.prompt_s / gap_s, round_s=work_s + gap_s)

    def pass_s(self, decoding: float, prompts: float) -> float:
        """Return 0: new requests wait for no pass, because passes of different users overlap."""
        return 0.0

    def _work_s(self, decoding: float) -> float:
        """Return how long the busiest pipeline stage works on decoded tokens per round, in seconds.

        A round is the time in which each of ``decoding`` requests gets one token.
        """
        return self.stage_s * max(min(1.0, decoding), decoding / self.slots)

    @cached_property
    def _loop(self) -> ClosedLoop:
        """Steady-state model of this deployment with a constant number of requests in flight."""
        return ClosedLoop(self, self.shape.new_tokens)

    def steady_state(self, users: float, think_s: float = 0.0) -> SteadyState:
        """Return the mean times and the rate of requests.

        Args:
            users: Number of users, at least 1. If they do not pause, all have a request in flight,
                and there may be at most `max_concurrency`.
            think_s: Mean pause of a user between two requests in seconds.
        """
        return steady_state(self._loop, self.max_concurrency, users, think_s)
