"""Outcome: the times of all requests of a simulation; Recorder: the clock that records them."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.errors import WseBug
from wse.serving.simulation.kv.prefixes import NO_PREFIXES, PrefixUse
from wse.serving.simulation.workload import Workload

PIPELINE_SPACING: Final = 0.9
"""Minimum time between two arrivals in a closed loop, as a fraction of that between the first two.

This value is for machines whose passes have no common start.
"""
PASS_SPACING: Final = 0.99
"""Minimum time between two arrivals, as for `PIPELINE_SPACING`, if passes have a common start.

It is larger because prompts that arrive during one pass share the next pass and delay each other.
"""
GOLDEN_RATIO: Final = (5**0.5 - 1) / 2
"""Step between the phases of requests, in passes.

Multiples of the step modulo 1 are evenly distributed (Knuth, TAOCP 3, section 6.4).
"""
SUMS: Final = ("busy_s", "work_s", "prefill_busy_s", "user_s", "kv_token_s", "in_system_s")
"""Fields of an outcome that are sums over all machines."""
LITTLE_TOLERANCE: Final = 1e-6
"""Relative difference between the two sides of Little's law that is attributed to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationOutcome:
    """Times of all requests in a simulation, in seconds.

    Attributes:
        workload: The requests.
        start_s: Time of admission, float64 [requests]. The queueing delay lasts from the arrival
            until then.
        first_s, end_s: Times at which the reader received the first and the last token, float64
            [requests].
        left_s: Time at which the machine finished the request, float64 [requests].
        gaps: Runs of consecutive decode passes, float64 [runs, 4]: duration of the first pass and
            of the last pass in seconds, number of passes, number of users.
        makespan_s: Seconds from the first arrival until the machine finished all requests.
        replicas: Number of machines that shared the requests, including idle ones. The following
            times are sums over all machines.
        busy_s: Seconds during which a pass ran.
        work_s: Seconds during which the busiest stage worked.
        prefill_busy_s: Seconds during which a separate machine read prompts; 0 if there is none.
        user_s: Sum of users × seconds over all decode passes.
        kv_token_s: Integral of the occupied KV cache in tokens over time, including cached prefixes
            that no request uses.
        in_system_s: Integral of the number of requests in the system over time.
        prefixes: Prompt tokens that were in the KV cache or in tiers.
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
    kv_token_s: float
    in_system_s: float
    prefixes: PrefixUse = NO_PREFIXES
    replicas: int = 1

    @property
    def little(self) -> tuple[float, float]:
        """Both sides of Little's law, which must be equal in a correct simulation.

        The first is the mean number of requests in the system. The second is the rate of requests,
        multiplied by the mean time that a request spends in the system.
        """
        request_seconds = float((self.left_s - self.workload.arrival_s).sum())
        return self.in_system_s / self.makespan_s, request_seconds / self.makespan_s


class Recorder:
    """The clock of one simulated machine and the recorded times of its requests.

    The clock advances from event to event and counts the requests in the system.

    In a closed loop, the number of users is constant. Each user's next request arrives after the
    user has received the last token of the previous one and has paused. Two measures keep requests
    from synchronising:

    - With ``keeps_distance``, if all requests have the same lengths and users do not pause, those
      that end together do not start together.
    - If passes have a common start, later requests arrive at evenly distributed times within a pass
      instead of at its end.

    Attributes:
        order: Indices of the requests of this machine, in arrival order.
        times: Known arrival times, in order. There may be fewer than requests in a closed loop.
        arrivals: Time of arrival of each request that has arrived.
        now: Current time.
        arrived, left: Numbers of requests that have arrived and that have left.
        start_s, first_s, end_s, left_s: Times of each request, as in `SimulationOutcome`.
        cached_tokens: Number of tokens of each prompt that were in the KV cache at its admission.
        loaded_tokens: Number of further tokens of each prompt that were not read because its prefix
            was loaded from tiers.
        busy_s, work_s, prefill_busy_s, user_s, kv_token_s, in_system_s: As in `SimulationOutcome`.
    """

    def __init__(
        self, workload: Workload, requests: Iterable[int] | None = None, *, keeps_distance: bool = True
    ) -> None:
        """Create a recorder whose clock starts at the first arrival on this machine.

        Args:
            workload: The requests of all machines.
            requests: Indices of the requests of this machine, in arrival order; None for all
                requests.
            keeps_distance: Whether consecutive requests of a closed loop (a constant number in
                flight) arrive with a minimum time between them. If not, several requests that end
                at the same time are followed by requests that start at the same time.
        """
        self._workload = workload
        self.order = list(range(len(workload)) if requests is None else requests)
        self.arrivals: list[float] = workload.arrival_s.tolist()
        self.times = [self.arrivals[request] for request in self.order[: workload.in_flight]]
        is_spaced = len(self.times) > 1 and keeps_distance and not workload.lengths_vary and not workload.think_s
        self._first_spacing_s = self.times[1] - self.times[0] if is_spaced else 0.0
        self._phase = 0.0  # fraction of a pass after which the next request of a closed loop arrives
        self._pauses_s: list[float] = []
        if workload.in_flight is not None:
            self._pauses_s = workload.pauses_s().tolist()
        self.now: float = self.times[0] if self.times else self.arrivals[0]
        self.arrived = self.left = 0
        self.busy_s = self.work_s = self.prefill_busy_s = self.user_s = self.kv_token_s = self.in_system_s = 0.0
        self.start_s, self.first_s, self.end_s, self.left_s = ([0.0] * len(self.arrivals) for _ in range(4))
        self.cached_tokens, self.loaded_tokens = ([0] * len(self.arrivals) for _ in range(2))
        self._runs = array("d")

    @property
    def next_request(self) -> int | None:
        """Index of the request that arrives next; None if all known requests have arrived."""
        return self.order[self.arrived] if self.arrived < len(self.order) else None

    @property
    def next_arrival_s(self) -> float:
        """Time at which the next request arrives; infinity if it is not known."""
        return self.times[self.arrived] if self.arrived < len(self.times) else math.inf

    @property
    def is_done(self) -> bool:
        """True if all known requests have left."""
        return self.left == len(self.order)

    def extend(self, workload: Workload) -> None:
        """Reserve the next indices for additional requests.

        The machine serves such a request only after its index has been passed to `add`. The arrival
        times are stored, but not the lengths of prompts and answers, so `outcome` cannot be used
        afterwards.
        """
        self.arrivals += workload.arrival_s.tolist()
        for times in (self.start_s, self.first_s, self.end_s, self.left_s):
            times += [0.0] * len(workload)
        self.cached_tokens += [0] * len(workload)
        self.loaded_tokens += [0] * len(workload)

    def add(self, request: int) -> None:
        """Add a request, which must arrive after all requests added so far."""
        self.order.append(request)
        self.times.append(self.arrivals[request])

    def advance(self, time: float) -> list[int]:
        """Advance the clock and return the requests that arrive up to the new time."""
        arrived_before, order, times = self.arrived, self.order, self.times
        request_seconds = (arrived_before - self.left) * (time - self.now)
        while self.arrived < len(times) and times[self.arrived] <= time:
            self.arrivals[order[self.arrived]] = times[self.arrived]
            request_seconds += time - times[self.arrived]
            self.arrived += 1
        self.in_system_s += request_seconds
        self.now = time
        return order[arrived_before : self.arrived]

    def decode_run(
        self, first_s: float, last_s: float, passes: int, users: int, seconds: float, delays_s: Sequence[float] = ()
    ) -> None:
        """Record consecutive decode passes of the same users.

        The duration of a pass changes linearly from the first to the last pass.

        Args:
            first_s, last_s: Duration of the first and the last pass in seconds.
            passes: Number of passes.
            users: Number of users.
            seconds: Total duration of all passes in seconds.
            delays_s: For each user who joins with the first of these passes, the seconds between
                the user's first token and the start of the pass. They count as part of the time
                between the user's first two tokens.
        """
        self.user_s += users * seconds
        positive_delays_s = [delay for delay in delays_s if delay > 0]
        if positive_delays_s:
            for delay in positive_delays_s:
                self._runs.extend((first_s + delay, first_s + delay, 1, 1))
            if users > len(positive_delays_s):
                self._runs.extend((first_s, first_s, 1, users - len(positive_delays_s)))
            first_s += (last_s - first_s) / max(1, passes - 1)
            passes -= 1
        if passes:
            self._runs.extend((first_s, last_s, passes, users))

    def drop_decode_runs(self) -> None:
        """Delete the recorded decode passes, which only `outcome` uses."""
        del self._runs[:]

    def leave(self, request: int, at_s: float, pass_s: float = 0.0) -> None:
        """Record that a request has left the machine.

        In a closed loop (a constant number of users), another request arrives after a pause. If fewer
        requests remain than there are users, only the users whose pauses end first send one.

        Args:
            request: Index of the request.
            at_s: Time at which the request left, at most the current time and not before the
                previous event.
            pass_s: Duration of a pass in seconds. In a closed loop, the next request arrives a
                varying fraction of it later, so that requests do not synchronise. 0 if passes have
                no common start.
        """
        self.in_system_s -= self.now - at_s
        self.left_s[request] = at_s
        self.left += 1
        if self._workload.in_flight is not None and self.arrived < len(self.order):
            self._phase = (self._phase + GOLDEN_RATIO) % 1.0
            pause_s = self._pauses_s[request]
            arrival_s = self.end_s[request] + pause_s + self._phase * pass_s
            insort(self.times, arrival_s if pause_s else self._spaced(arrival_s, pass_s))
            del self.times[len(self.order) :]

    def _spaced(self, arrival_s: float, pass_s: float) -> float:
        """Return the time of an arrival, delayed so that it keeps a distance from the previous one.

        If passes have a common start, the delay is a whole number of passes, so that arrivals remain
        evenly distributed within a pass. The number is rounded down, so two arrivals may be up to
        one pass closer than the minimum distance. However, no two arrivals are closer than one pass
        or, if that is shorter, than the minimum distance. For this, the delay may be any time.

        Args:
            arrival_s: Time of the arrival without a delay.
            pass_s: Duration of a pass in seconds; 0 if passes have no common start.
        """
        last_s: float = self.times[-1]
        if not pass_s:
            return max(arrival_s, last_s + PIPELINE_SPACING * self._first_spacing_s)
        spacing_s = PASS_SPACING * self._first_spacing_s
        passes = max(0, math.floor((last_s + spacing_s - arrival_s) / pass_s))
        return max(arrival_s + passes * pass_s, last_s + min(spacing_s, pass_s))

    def check_little(self) -> None:
        """Check that all requests have left, and that Little's law holds for them.

        Raises:
            WseBug: It does not, so requests were miscounted.
        """
        request_s = math.fsum(self.left_s[request] - self.arrivals[request] for request in self.order)
        difference_s = abs(self.in_system_s - request_s)
        if not self.is_done or difference_s > LITTLE_TOLERANCE * max(self.in_system_s, request_s):
            message = (
                f"{self.left} of {len(self.order)} requests left; {self.in_system_s} request-seconds in the system, "
                f"by Little's law {request_s}"
            )
            raise WseBug(message)

    def outcome(self, prefixes: PrefixUse = NO_PREFIXES) -> SimulationOutcome:
        """Return the outcome after all requests have left.

        Args:
            prefixes: Prompt tokens that were in the KV cache or in tiers.

        Raises:
            WseBug: Little's law does not hold, so requests were miscounted.
        """
        order = np.array(self.order, np.int64)
        start_s, first_s, end_s, left_s = (
            np.array(times)[order] for times in (self.start_s, self.first_s, self.end_s, self.left_s)
        )
        self.check_little()
        workload = replace(self._workload, arrival_s=np.array(self.arrivals)).part(order)
        return SimulationOutcome(
            workload=workload,
            start_s=start_s,
            first_s=first_s,
            end_s=end_s,
            left_s=left_s,
            gaps=np.frombuffer(self._runs, np.float64).reshape(-1, 4),
            makespan_s=float(left_s.max() - workload.arrival_s[0]),
            prefixes=prefixes,
            busy_s=self.busy_s,
            work_s=self.work_s,
            prefill_busy_s=self.prefill_busy_s,
            user_s=self.user_s,
            kv_token_s=self.kv_token_s,
            in_system_s=self.in_system_s,
        )
