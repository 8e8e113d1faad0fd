"""Service: the part of an endpoint that does not depend on HTTP."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from wse.serving.simulation.live_replicas import LiveReplicas
from wse.studies.endpoint.bodies import TOO_MANY_REQUESTS, ApiError, ChatBody, CompletionBody, usage_of
from wse.studies.endpoint.metrics import ABORT, Metrics
from wse.studies.endpoint.paced_machine import PacedAnswer, PacedMachine
from wse.studies.endpoint.texts import AnswerText, answer_text, block_hashes, token_texts

MAX_BACKLOG: Final = 1_000
"""Maximum number of requests in addition to those for which there are batch slots."""
JSON_BYTES_PER_TOKEN: Final = 48
"""Maximum bytes of a prompt token: four characters, each as two escape sequences of six bytes."""
JSON_BYTES: Final = 1_048_576
"""Maximum bytes of a request besides the prompt, such as tool descriptions, which are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRequest:
    """A request that a service has accepted, with its answer.

    Attributes:
        prompt_tokens: Length of the prompt.
        text: Complete text of the answer, which is known from the start.
        answer: Simulated times of the tokens that have been released so far.
    """

    prompt_tokens: int
    text: AnswerText
    answer: PacedAnswer


class Service:
    """Server of requests that releases tokens at the times of a simulated machine.

    The service also determines the texts of answers and updates the metrics.

    Attributes:
        model: Name of the model.
        context: Maximum total number of tokens of a prompt and its answer.
        metrics: Counts and durations of all requests so far.
    """

    def __init__(
        self,
        live: LiveReplicas,
        *,
        model: str,
        context: int,
        speed: float,
        texts: Sequence[Sequence[str]] | None,
    ) -> None:
        """Create a service. Its simulated machine starts when the first request arrives.

        Args:
            live: Simulation at time 0.
            model: Name of the model.
            context: Maximum total number of tokens of a prompt and its answer.
            speed: Simulated seconds per second of real time.
            texts: Texts of answers, used round-robin, each as a list of tokens. None to answer with
                the text of the prompt.
        """
        self.model, self.context = model, context
        self._live, self._speed = live, speed
        self._texts = None if texts is None else cycle(texts)
        self.metrics = Metrics(model, live)
        self._machine: PacedMachine | None = None

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of the JSON of a request."""
        return JSON_BYTES + JSON_BYTES_PER_TOKEN * self.context

    def begin(self, body: CompletionBody | ChatBody, clock: AbstractEventLoop | None = None) -> AnsweredRequest:
        """Accept a request that arrives now.

        Args:
            body: The request.
            clock: Event loop whose clock paces the machine, which the first request starts. Ignored
                for all later requests. None for the running event loop.

        Raises:
            ApiError: The request is for another model, its prompt is empty, it is too long, or too
                many requests are waiting.
        """
        if body.model != self.model:
            message = f"model {body.model!r} is not served here; use {self.model!r}"
            raise ApiError(404, message, param="model", code="model_not_found")
        prompt, limit = body.prompt_and_limit()
        prompt_texts = token_texts(prompt)
        if not prompt_texts:
            raise ApiError(400, "the prompt is empty; give at least one character")
        answer_texts = prompt_texts if self._texts is None else next(self._texts)
        prompt_tokens, max_tokens = len(prompt_texts), len(answer_texts) if limit is None else limit
        if prompt_tokens + max_tokens > self.context:
            message = (
                f"{prompt_tokens:,} prompt tokens and {max_tokens:,} new tokens are more than the context of "
                f"{self.context:,} tokens; shorten the request, or start wse serve with a larger --context"
            )
            raise ApiError(400, message, code="context_length_exceeded")
        if self._live.backlog >= MAX_BACKLOG:
            message = f"{MAX_BACKLOG:,} requests wait for a batch slot; try again when some answers are complete"
            raise ApiError(TOO_MANY_REQUESTS, message, code="rate_limit_exceeded")
        text = answer_text(answer_texts, limit, ignore_end=body.ignore_eos, stop_texts=body.stop or [])
        if self._machine is None:
            self._machine = PacedMachine(self._live, self._speed, clock)
        block_tokens = self._live.prefix_block_tokens
        hashes = [] if block_tokens is None else block_hashes(prompt_texts, block_tokens)
        answer = self._machine.submit(prompt_tokens, len(text.pieces), hashes)
        return AnsweredRequest(prompt_tokens=prompt_tokens, text=text, answer=answer)

    def usage(self, request: AnsweredRequest) -> dict[str, Any]:
        """Return the token counts of a complete answer as the ``usage`` object of the API."""
        answer, keeps_prefixes = request.answer, self._live.prefix_block_tokens is not None
        cached_tokens = answer.cached_tokens + answer.loaded_tokens if keeps_prefixes else None
        return usage_of(request.prompt_tokens, len(request.text.pieces), cached_tokens)

    def end(self, request: AnsweredRequest) -> None:
        """Add a request that has ended to the metrics. If it was aborted, free its batch slot.

        A request was aborted if its answer is not complete.
        """
        assert self._machine is not None
        reason = request.text.finish_reason if request.answer.is_complete else ABORT
        self._machine.cancel(request.answer)
        self.metrics.add(request.answer, request.prompt_tokens, reason)
