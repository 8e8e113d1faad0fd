"""GpuDeployment: the rounds of a model on GPUs with continuous batching.

Every pass decodes one token of each request in flight. A prompt is processed as part of such
passes, at most `MAX_BATCHED_TOKENS` tokens per pass (Orca, OSDI 2022; Sarathi, arXiv 2308.16369).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wse.serving.economics import Economics
from wse.serving.gpus.roofline import Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.operating_point import RequestShape
from wse.serving.pausing_users import steady_state
from wse.serving.steady_state import ClosedLoop, PromptRounds, SteadyState

MAX_BATCHED_TOKENS: Final = 8_192
"""Maximum tokens per pass: the default of vLLM's server on GPUs with 70 GB or more.

The setting is `max_num_batched_tokens`. On an A100, the server uses a smaller default, but the same
number is modelled.
"""


@dataclass(frozen=True, kw_only=True)
class GpuDeployment:
    """A model served on GPUs, whose performance is computed from the durations of passes.

    It implements `wse.serving.operating_point.Deployment`.

    Attributes:
        server: The model on its GPUs with a serving stack (a specific version of serving software).
        shape: Token counts of a request.
        economics: Power and price of a GPU; None if they are unknown.
    """

    server: GpuServer
    shape: RequestShape
    economics: Economics | None

    @property
    def chips(self) -> int:
        """Number of GPUs."""
        return self.server.parallelism.gpus

    @cached_property
    def max_concurrency(self) -> int:
        """Maximum number of requests in flight, limited by KV caches and by the serving stack."""
        return self.server.users_that_fit(self.shape.tokens, self.shape.prefix_tokens)

    @property
    def delay_s(self) -> float:
        """Seconds from the end of the prompt's prefill to the first token: 0 on GPUs."""
        return 0.0

    def pass_s(self, decoding: float, prompts: float) -> float:
        """Return the duration of a pass in seconds, including the host's and a draft model's part.

        Args:
            decoding: Mean number of requests that decode in the pass, at least 1.
            prompts: Number of prompts that the pass reads; 0 or at least 1.
        """
        return self.prompt_rounds(decoding, prompts).round_s if prompts else self.decode_round_s(decoding)

    @property
    def _context_tokens(self) -> float:
        """Number of tokens in a request's KV cache when half of the answer has been generated."""
        return self.shape.prompt_tokens + self.shape.new_tokens / 2

    def decode_round_s(self, decoding: float) -> float:
        """Return the duration in seconds of a pass that decodes one token per request."""
        return self.server.decode_s(decoding, self._context_tokens)

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the number and duration of passes that process prompts while others decode.

        If requests decode, the duration is at least that of decoding one more request. Without this
        limit, it could fall as the number of requests rises.

        Args:
            decoding: Number of requests that decode in these passes; may be 0.
            prompts: Number of prompts that share each pass.
        """
        unread = self.shape.unread_tokens
        passes = math.ceil(unread / MAX_BATCHED_TOKENS)
        decode_groups = [Tokens(users=decoding, new=1, context=self._context_tokens)] if decoding else []
        seconds = 0.0
        for read_tokens in range(0, unread, MAX_BATCHED_TOKENS):
            chunk_tokens = min(MAX_BATCHED_TOKENS, unread - read_tokens)
            prompt_group = Tokens(users=prompts, new=chunk_tokens, context=self.shape.prefix_tokens + read_tokens)
            seconds += self.server.pass_time([*decode_groups, prompt_group]).total_s
        min_s = min(1.0, decoding) * self.decode_round_s(decoding + 1)
        fill = unread / (passes * MAX_BATCHED_TOKENS)
        return PromptRounds(rounds=passes, round_s=max(seconds / passes, min_s), fill=fill)

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
