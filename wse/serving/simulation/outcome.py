"""Outcome: what happened to each request of a simulation, and the recorder that takes it down event by event."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.errors import WseBug
from wse.serving.simulation.workload import Workload

EVENNESS: Final = 0.9
"""Part of the distance of the first arrivals that is between any two in a closed loop."""
GOLDEN_RATIO: Final = (5**0.5 - 1) / 2
"""Step between the phases of requests: its multiples modulo 1 are spread evenly (Knuth, TAOCP 3, section 6.4)."""
LITTLE_TOLERANCE: Final = 1e-6
"""Relative difference of the two sides of Little's law that is put down to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The times of all requests of a simulation, in seconds.

    Attributes:
        workload: The requests.
        start_s: float64 ``[requests]``: when a request was admitted; its queueing delay is from its arrival until then.
        first_s, end_s: float64 ``[requests]``: when its reader had the first and the last token.
        left_s: float64 ``[requests]``: when the machine was done with it.
        gaps: float64 ``[runs, 4]``: runs of decode passes: seconds of the first and of the last, passes, users.
        makespan_s: From the first arrival until the machine was done with all.
        replicas: Machines that shared the requests, idle ones included; seconds below are the sums of all of them.
        busy_s: Seconds in which a pass ran.
        work_s: Seconds in which the slowest stage worked.
        prefill_busy_s: Seconds in which a machine of its own read prompts; 0 without one.
        user_s: Sum over decode passes of users × seconds.
        in_system_s: Integral of the number of requests in the system over time, added up from event to event.
        prefix_hits, saved_tokens: Prompts that found their prefix, and tokens that were not read again.
    """

    workload: Workload
    start_s: F64
    first_s: F64
    end_s: F64
    left_s: F64
    gaps: F64
    makespan_s: float
    busy_s: float
    work_s: float
    prefill_busy_s: float
    user_s: float
    in_system_s: float
    prefix_hits: int = 0
    saved_tokens: int = 0
    replicas: int = 1

    @property
    def little(self) -> tuple[float, float]:
        """Both sides of Little's law: requests in the system over time, and requests a second × the time of one."""
        stays = float((self.left_s - self.workload.arrival_s).sum())
        return self.in_system_s / self.makespan_s, stays / self.makespan_s


class Recorder:
    """Takes down a simulation of one machine. Its clock goes from event to event and counts the requests in the system.

    The requests of the workload that come to this machine are in ``order``, in that of their arrival.

    In a closed loop, a request beyond those that are in flight at first arrives when the reader of another one has its
    last token. Requests that end together do not begin together, or they would stay together for ever. Where passes
    have a begin, they arrive at all times of a pass alike, and not always at its end.
    """

    def __init__(self, workload: Workload, requests: Iterable[int] | None = None) -> None:
        self.workload = workload
        self.order = list(range(len(workload)) if requests is None else requests)
        self.arrivals: list[float] = workload.arrival_s.tolist()
        first_s = [self.arrivals[request] for request in self.order[:2]]
        self._spacing_s = 0.0 if len(first_s) < 2 else EVENNESS * (first_s[1] - first_s[0])
        self._phase = 0.0  # part of a pass after which the next request of a closed loop arrives
        self._scheduled = len(self.order)
        if workload.in_flight is not None:
            self._scheduled = min(len(self.order), workload.in_flight)
            for request in self.order[self._scheduled :]:
                self.arrivals[request] = math.inf
        self.now = first_s[0] if first_s else self.arrivals[0]
        self.arrived = self.left = 0
        self.busy_s = self.work_s = self.prefill_busy_s = self.user_s = self._in_system_s = 0.0
        self.start_s, self.first_s, self.end_s, self.left_s = ([0.0] * len(self.arrivals) for _ in range(4))
        self._runs = array("d")

    @property
    def next_request(self) -> int | None:
        """The request that arrives next; None where none is known that has not arrived."""
        return self.order[self.arrived] if self.arrived < len(self.order) else None

    @property
    def is_done(self) -> bool:
        """True if all requests that have come, or are known to come, have left."""
        return self.left == len(self.order)

    def add(self, request: int) -> None:
        """Take a further request, which arrives later than those before."""
        self.order.append(request)
        self._scheduled += 1

    def advance(self, until: float) -> list[int]:
        """Go on to a time; return the requests that arrive until then."""
        before, order = self.arrived, self.order
        area = (before - self.left) * (until - self.now)
        while self.arrived < len(order) and self.arrivals[order[self.arrived]] <= until:
            area += until - self.arrivals[order[self.arrived]]
            self.arrived += 1
        self._in_system_s += area
        self.now = until
        return order[before : self.arrived]

    def decode_run(
        self, first_s: float, last_s: float, passes: int, users: int, seconds: float, delays_s: Sequence[float] = ()
    ) -> None:
        """Take down passes of users, all of which get a token from each, and whose seconds rise evenly.

        ``delays_s``: of users whose first passes these are, from the token before until the first pass begins.
        """
        self.user_s += users * seconds
        late = [delay for delay in delays_s if delay > 0]
        if late:
            for delay in late:
                self._runs.extend((first_s + delay, first_s + delay, 1, 1))
            if users > len(late):
                self._runs.extend((first_s, first_s, 1, users - len(late)))
            first_s += (last_s - first_s) / max(1, passes - 1)
            passes -= 1
        if passes:
            self._runs.extend((first_s, last_s, passes, users))

    def leave(self, request: int, at_s: float, pass_s: float = 0.0) -> None:
        """Take down that a request has left, now or since the event before.

        Args:
            request: The request.
            at_s: When it left.
            pass_s: Seconds of a pass, at some time of which the next request of a closed loop arrives; 0 for none.
        """
        self._in_system_s -= self.now - at_s
        self.left_s[request] = at_s
        self.left += 1
        if self._scheduled < len(self.order):
            earliest_s = self.arrivals[self.order[self._scheduled - 1]] + self._spacing_s
            self._phase = (self._phase + GOLDEN_RATIO) % 1.0
            arrival_s = self.end_s[request] + self._phase * pass_s
            self.arrivals[self.order[self._scheduled]] = max(arrival_s, earliest_s)
            self._scheduled += 1

    def outcome(self, *, prefix_hits: int = 0, saved_tokens: int = 0) -> Outcome:
        """The outcome once all have left. Raises WseBug where Little's law does not hold: requests were miscounted."""
        order = np.array(self.order, np.int64)
        start_s, first_s, end_s, left_s = (
            np.array(each)[order] for each in (self.start_s, self.first_s, self.end_s, self.left_s)
        )
        workload = replace(self.workload, arrival_s=np.array(self.arrivals)).part(order)
        outcome = Outcome(
            workload=workload,
            start_s=start_s,
            first_s=first_s,
            end_s=end_s,
            left_s=left_s,
            gaps=np.frombuffer(self._runs, np.float64).reshape(-1, 4),
            makespan_s=float(left_s.max() - workload.arrival_s[0]),
            busy_s=self.busy_s,
            work_s=self.work_s,
            prefill_busy_s=self.prefill_busy_s,
            user_s=self.user_s,
            in_system_s=self._in_system_s,
            prefix_hits=prefix_hits,
            saved_tokens=saved_tokens,
        )
        held, expected = outcome.little
        if not self.is_done or abs(held - expected) > LITTLE_TOLERANCE * max(held, expected):
            message = (
                f"{self.left} of {len(self.order)} requests left; {held} in the system, by Little's law {expected}"
            )
            raise WseBug(message)
        return outcome
