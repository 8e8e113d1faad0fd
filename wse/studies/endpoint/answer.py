"""PacedAnswer: the answer to one request, whose tokens are released when they are due."""

from __future__ import annotations

import asyncio


class PacedAnswer:
    """Answer to one request. Its tokens become available to a reader at their simulated times.

    If the reader is slower than the simulation, it gets several tokens at a time; other requests
    are not delayed. All times are seconds since the start of the simulation.

    Attributes:
        request: Index of the request.
        arrival_s: Time at which the request arrived.
        start_s: Time at which the request was admitted. It is valid once the answer is complete.
        new_tokens: Number of tokens in the complete answer.
        token_times_s: Times of the tokens that have become available so far.
    """

    def __init__(self, request: int, arrival_s: float, new_tokens: int) -> None:
        """Create an answer without tokens."""
        self.request, self.arrival_s, self.new_tokens = request, arrival_s, new_tokens
        self.start_s = arrival_s
        self.token_times_s: list[float] = []
        self._read_count = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    @property
    def is_complete(self) -> bool:
        """True if all tokens have been released."""
        return len(self.token_times_s) == self.new_tokens

    def release(self, tokens: int, at_s: float) -> None:
        """Make the first ``tokens`` tokens of the answer available to the reader.

        Args:
            tokens: Number of tokens, including those that were released before.
            at_s: Simulated time in seconds at which the new tokens were generated.
        """
        self.token_times_s += [at_s] * (tokens - len(self.token_times_s))
        self._changed.set()

    def close(self) -> None:
        """Make `next_tokens` return None, because the client has disconnected."""
        self._is_closed = True
        self._changed.set()

    async def next_tokens(self) -> range | None:
        """Wait for more tokens, and return their positions in the answer.

        The result is None after the last token, and after `close`.
        """
        while not self._is_closed and self._read_count < self.new_tokens:
            released = len(self.token_times_s)
            if released > self._read_count:
                positions = range(self._read_count, released)
                self._read_count = released
                return positions
            self._changed.clear()
            await self._changed.wait()
        return None
