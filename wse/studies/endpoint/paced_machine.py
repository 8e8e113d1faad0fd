"""PacedMachine: a simulated machine whose tokens become available when they are due.

All times are measured on the monotonic clock of the event loop. The time of the simulation is the
time since the start, multiplied by the speed. Each wake-up simulates up to the current time and
releases all tokens that are due, so a late wake-up delays tokens but not the simulation.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol

from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.studies.endpoint.answer import PacedAnswer


class Timer(Protocol):
    """A scheduled call that can be cancelled, such as a timer handle of asyncio."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """Methods of an asyncio event loop: reading a monotonic clock and scheduling calls."""

    def time(self) -> float:
        """Return the monotonic time in seconds."""

    def call_at(self, when: float, callback: object) -> Timer:
        """Schedule a function without arguments to be called when the clock shows ``when``."""


class PacedMachine:
    """A simulated machine whose simulated time advances in proportion to a real clock.

    Attributes:
        live: The simulation.
    """

    def __init__(self, live: LiveMachine, speed: float, clock: Clock | None = None) -> None:
        """Start the simulation. Its time 0 is the current time of the clock.

        Args:
            live: Simulation at time 0.
            speed: Simulated seconds per second of real time.
            clock: Clock that measures real time; None for the running event loop.
        """
        self.live, self._speed = live, speed
        self._clock: Clock = asyncio.get_running_loop() if clock is None else clock  # type: ignore[assignment]
        self._start_s = self._clock.time()
        self._timer: Timer | None = None
        self._answers: dict[int, PacedAnswer] = {}

    def now_s(self) -> float:
        """Return the current time of the simulation in seconds."""
        return (self._clock.time() - self._start_s) * self._speed

    def submit(self, prompt_tokens: int, new_tokens: int) -> PacedAnswer:
        """Add a request that arrives now, and return its answer, which has no tokens yet."""
        arrival_s = self.now_s()
        request = self.live.add(arrival_s, prompt_tokens, new_tokens)
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
            answer.release(due.tokens, due.at_s)
            if answer.is_complete:
                answer.start_s = self.live.start_s(due.request)
                del self._answers[due.request]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_s = min(self.live.next_tokens_s(), self.live.next_change_s())
        if wake_s < inf:
            self._timer = self._clock.call_at(self._start_s + wake_s / self._speed, self._advance)
