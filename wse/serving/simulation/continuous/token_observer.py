"""TokenObserver: the receiver of the time of every token that a simulated machine generates."""

from __future__ import annotations

from typing import Protocol


class TokenObserver(Protocol):
    """Receiver of token times, which are reported as soon as they are known.

    In a round, each user gets one decode pass. The times of a round may be reported when it starts,
    so they do not depend on requests that arrive later in the same round.
    """

    def first_token(self, request: int, at_s: float) -> None:
        """Receive the time of the first token of an answer.

        Args:
            request: Index of the request.
            at_s: Time at which the reader gets the token.
        """

    def next_tokens(self, request: int, unfinished_passes: int, at_s: float) -> None:
        """Receive the time of the tokens of one decode pass.

        Args:
            request: Index of the request.
            unfinished_passes: Number of decode passes that the answer still needs; 0 if it is
                complete.
            at_s: Time at which the reader gets the tokens.
        """
