"""TokenObserver: the receiver of the time of every token that a simulated machine generates."""

from __future__ import annotations

from typing import Protocol


class TokenObserver(Protocol):
    """Interface for objects that process the times of tokens during a simulation.

    In a round, each user gets one decode pass. The times of a round may be reported when it starts,
    so they do not depend on requests that arrive later in the same round.
    """

    def first_token(self, request: int, at_s: float) -> None:
        """Process the time at which a user gets the first token of an answer.

        Args:
            request: Index of the request.
            at_s: Time in seconds.
        """

    def next_tokens(self, request: int, unfinished_passes: int, at_s: float) -> None:
        """Process the time at which a user gets the tokens of one decode pass.

        Args:
            request: Index of the request.
            unfinished_passes: Number of decode passes that the answer still needs; 0 if it is
                complete.
            at_s: Time in seconds.
        """
