"""WaferDeployment: rounds of a model on wafers, from the times of one pass and of one prompt.

A pass over one token of each of its users goes through all stages in ``token_s`` and keeps the slowest stage busy for
``stage_s``. With several passes in flight a round takes as long as one pass, or as the slowest stage works in it.
Prompts are read in the time in which the slowest stage would wait, from the moment on in which they arrive. A request
whose prompt is read has at least one chunk in every round, and at least the time of the stage that it would have as a
decoding request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape
from wse.serving.steady_state import ClosedLoop, PromptRounds, SteadyState


@dataclass(frozen=True, kw_only=True)
class WaferDeployment:
    """A model on wafers in one layout; see `wse.serving.operating_point.Deployment`.

    Attributes:
        shape: The requests that it serves.
        max_concurrency: Requests whose KV caches fit at a time.
        chips: Wafers, those of a draft model among them.
        economics: Power and price of a wafer.
        slots: Users of a pass.
        token_s: Seconds of a pass through all stages, over the tokens that it yields each user.
        stage_s: Seconds in which the slowest stage, link or draft works for a pass, over the same tokens.
        prompt_s: Seconds in which the slowest stage works for one prompt.
        chunk_s: Those for one chunk of the prompt.
        delay_s: Seconds to the first token of a request that is alone, beyond ``prompt_s``: the last chunk in transit
            through the other stages, and the round trip to the host.
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
        """Return the mean seconds of rounds in which no prompt is read; a mean of 1.9 requests is 1 or 2 at a time."""
        fewer = math.floor(decoding)
        more_s = max(self.token_s, self._work_s(fewer + 1))
        return more_s - (fewer + 1 - decoding) * (more_s - max(self.token_s, self._work_s(fewer)))

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the rounds in which a prompt is read beside some decoding requests; one prompt after another is."""
        work_s = self._work_s(decoding)
        gap_s = max(self.chunk_s, self.stage_s / self.slots, self.token_s - work_s)
        return PromptRounds(rounds=self.prompt_s / gap_s, round_s=work_s + gap_s)

    def wait_s(self, others: float) -> float:
        """Return the delay to the first token, for any number of other requests."""
        return self.delay_s

    def is_busy(self, decoding: float) -> bool:
        """Return whether the slowest stage works all the time for some decoding requests."""
        return self._work_s(decoding) > self.token_s

    def _work_s(self, decoding: float) -> float:
        """Return the seconds of a round in which the slowest stage works for decoded tokens."""
        return self.stage_s * max(min(1.0, decoding), decoding / self.slots)

    @cached_property
    def _loop(self) -> ClosedLoop:
        return ClosedLoop(self, self.shape.new_tokens)

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the steady state of a number of requests in flight, at least 1."""
        return self._loop.steady_state(concurrency)
