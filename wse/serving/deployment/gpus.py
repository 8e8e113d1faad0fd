"""GpuDeployment: rounds of a model that GPUs serve with continuous batching.

Every pass decodes one token of each request in flight. A prompt is read as a part of such passes, at most
`MAX_BATCHED_TOKENS` tokens in one of them (Orca, OSDI 2022; Sarathi, arXiv 2308.16369).
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
from wse.serving.steady_state import ClosedLoop, PromptRounds, SteadyState

MAX_BATCHED_TOKENS: Final = 8_192
"""Tokens of a pass at most, as by default for vLLM's server on GPUs of 70 GB and more (`max_num_batched_tokens`).

The A100, for which that server takes fewer, is modelled with as many.
"""


@dataclass(frozen=True, kw_only=True)
class GpuDeployment:
    """A model on GPUs; see `wse.serving.operating_point.Deployment`.

    Attributes:
        server: The model on its GPUs with a serving stack.
        shape: The requests that it serves.
        economics: Power and price of a GPU; None where they are unknown.
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
        """Requests that are in flight at most: those whose KV caches fit, or that the stack takes."""
        return self.server.users_that_fit(self.shape.tokens)

    def wait_s(self, others: float) -> float:
        """Return half of a pass of others, which is under way when a request arrives; with one other, if there is one.

        The host's work is a part of every pass.
        """
        return min(1.0, others) * self.decode_round_s(max(1.0, others)) / 2

    def is_busy(self, decoding: float) -> bool:
        """Return that no number of decoding requests keeps GPUs busy: longer passes always decode more tokens/s."""
        return False

    @property
    def _context_tokens(self) -> float:
        """Tokens in the cache of a request in the middle of its answer."""
        return self.shape.prompt_tokens + self.shape.new_tokens / 2

    def decode_round_s(self, decoding: float) -> float:
        """Return the seconds of a pass over one token of each of some requests."""
        return self.server.decode_s(decoding, self._context_tokens)

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the passes that read a prompt, some prompts together, beside some decoding requests.

        A pass is as long as one over a token of one request more, at least, so that time does not fall with requests.
        """
        unread = self.shape.prompt_tokens - self.shape.prefix_tokens
        passes = math.ceil(unread / MAX_BATCHED_TOKENS)
        decoded = [Tokens(users=decoding, new=1, context=self._context_tokens)] if decoding else []
        seconds = 0.0
        for done in range(0, unread, MAX_BATCHED_TOKENS):
            piece = min(MAX_BATCHED_TOKENS, unread - done)
            read = Tokens(users=prompts, new=piece, context=self.shape.prefix_tokens + done)
            seconds += self.server.pass_time([*decoded, read]).total_s
        least_s = min(1.0, decoding) * self.decode_round_s(decoding + 1)
        fill = unread / (passes * MAX_BATCHED_TOKENS)
        return PromptRounds(rounds=passes, round_s=max(seconds / passes, least_s), fill=fill)

    @cached_property
    def _loop(self) -> ClosedLoop:
        return ClosedLoop(self, self.shape.new_tokens)

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the steady state of a number of requests in flight, at least 1."""
        return self._loop.steady_state(concurrency)
