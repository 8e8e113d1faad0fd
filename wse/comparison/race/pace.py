"""Pace: when each token of an answer comes to its user, on one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class Pace(Result):
    """The times at which tokens of an answer come, from the user's request on.

    The first comes alone, at ``first_token_s``; the others in steps, ``tokens_per_step`` at once, ``step_s`` apart.
    """

    name: Annotated[str, Doc("the machine and how it is shared")]
    first_token_s: Annotated[float, Doc("from the request to the first token, waiting and network and all", "s")]
    queue_s: Annotated[float, Doc("of it waiting for others", "s")]
    step_s: Annotated[float, Doc("between two steps", "s")]
    tokens_per_step: Annotated[float, Doc("tokens that a step brings; more than one with drafts", "tokens")] = 1.0

    def __post_init__(self) -> None:
        """Steps take time, or an answer would have no pace."""
        if not (self.step_s > 0 and self.tokens_per_step >= 1 and self.first_token_s >= self.queue_s >= 0):
            message = f"no pace: {self}"
            raise ValueError(message)

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second behind the first."""
        return self.tokens_per_step / self.step_s

    def tokens_at(self, seconds: float) -> int:
        """Tokens that have come so many seconds behind the request."""
        if seconds < self.first_token_s:
            return 0
        return 1 + math.floor(math.floor((seconds - self.first_token_s) / self.step_s) * self.tokens_per_step)

    def seconds_to(self, tokens: int) -> float:
        """Seconds from the request until so many tokens have come."""
        return self.first_token_s + math.ceil((tokens - 1) / self.tokens_per_step) * self.step_s
