"""PacedMachine: simulated machines whose tokens become available when they are due.

All times are measured on the monotonic clock of the event loop. The time of the simulation is the
time since the start, multiplied by the speed. Each wake-up simulates up to the current time and
releases all tokens that are due, so a late wake-up delays tokens but not the simulation. The tokens
of a request are released to its `PacedAnswer`.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Hashable, Sequence
from math import inf

from wse.serving.simulation.live_replicas import LiveReplicas


class PacedAnswer:
    """Answer to one request. Its tokens become available to a reader at their simulated times.

    If the reader is slower than the simulation, it gets several tokens at a time; other requests
    are not delayed. All times are seconds since the start of the simulation.

    Attributes:
        request: Index of the request.
        arrival_s: Time at which the request arrived.
        start_s: Time at which the request was admitted. It is valid once a token is available.
        cached_tokens: Tokens of the prompt that were in the KV cache; valid like ``start_s``.
        loaded_tokens: Further tokens of the prompt that were loaded from KV tiers; valid like
            ``start_s``.
        new_tokens: Number of tokens in the complete answer.
        token_times_s: Times of the tokens that have become available so far.
    """

    def __init__(self, request: int, arrival_s: float, new_tokens: int) -> None:
        """Create an answer without tokens."""
        self.request, self.arrival_s, self.new_tokens = request, arrival_s, new_tokens
        self.start_s, self.cached_tokens, self.loaded_tokens = arrival_s, 0, 0
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


class PacedMachine:
    """Simulated replicas whose simulated time advances in proportion to a real clock.

    Attributes:
        live: The simulation.
    """

    def __init__(self, live: LiveReplicas, speed: float, clock: AbstractEventLoop | None = None) -> None:
        """Start the simulation. Its time 0 is the current time of the clock.

        Args:
            live: Simulation at time 0.
            speed: Simulated seconds per second of real time.
            clock: Event loop that measures real time; None for the running one.
        """
        self.live, self._speed = live, speed
        self._clock = asyncio.get_running_loop() if clock is None else clock
        self._start_s = self._clock.time()
        self._timer: TimerHandle | None = None
        self._answers: dict[int, PacedAnswer] = {}

    def now_s(self) -> float:
        """Return the current time of the simulation in seconds."""
        return (self._clock.time() - self._start_s) * self._speed

    def submit(self, prompt_tokens: int, new_tokens: int, prefix_hashes: Sequence[Hashable] = ()) -> PacedAnswer:
        """Add a request that arrives now, and return its answer, which has no tokens yet.

        The arguments are the same as for `LiveMachine.add`.
        """
        arrival_s = self.now_s()
        request = self.live.add(arrival_s, prompt_tokens, new_tokens, prefix_hashes)
        answer = self._answers[request] = PacedAnswer(request, arrival_s, new_tokens)
        self._advance()
        return answer

    def cancel(self, answer: PacedAnswer) -> None:
        """End an answer early, and free its batch slot. A complete answer is left unchanged."""
        if self._answers.pop(answer.request, None) is not None:
            self.live.cancel(answer.request, self.now_s())
            self._advance()

    def _advance(self) -> None:
        """Simulate up to the current time, release due tokens, and schedule the next call."""
        now_s = self.now_s()
        self.live.run_until(now_s)
        for due in self.live.pop_tokens(now_s):
            answer = self._answers[due.request]
            record, request = self.live.record_of(due.request)
            answer.start_s = record.start_s[request]
            answer.cached_tokens, answer.loaded_tokens = record.cached_tokens[request], record.loaded_tokens[request]
            answer.release(due.tokens, due.at_s)
            if answer.is_complete:
                del self._answers[due.request]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_s = min(self.live.next_tokens_s(), self.live.next_change_s())
        if wake_s < inf:
            self._timer = self._clock.call_at(self._start_s + wake_s / self._speed, self._advance)
