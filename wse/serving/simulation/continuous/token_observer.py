"""TokenObserver: the receiver of the time of every token that a simulated machine generates."""

from __future__ import annotations

from typing import Protocol


class TokenObserver(Protocol):
    """Receiver of token times, which are reported as soon as they are known.

    A reported time may be up to one round, the time in which each user gets one decode pass, ahead
    of the requests that the machine knows.
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
