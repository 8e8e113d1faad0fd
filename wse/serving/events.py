"""Tokens and chunks of prompts in transit through stages, event by event: what the closed forms are tested against.

Two kinds of event: a job comes to a server, and a server is done with a job. A server takes jobs in the order in which
they come.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from wse.serving.route import Route

COMES, DONE = 0, 1


@dataclass(frozen=True, slots=True)
class Job:
    """A pass of a stream, or a chunk of a prompt.

    Attributes:
        route: Its visits.
        predecessor: The job that has to be over before this one begins, by its number; -1 for none.
        leader: The job whose visit of the same number has to be over before one of this one begins, and which has to be
            over before this one is; -1 for none.
    """

    route: Route
    predecessor: int = -1
    leader: int = -1


@dataclass(slots=True)
class _Progress:
    """The progress of a job."""

    visit: int = 0  # its next, or that it is in
    over: bool = False
    waits: bool = False  # waits for the job that it is behind
    followers: list[int] = field(default_factory=list)
    behind_it: list[int] = field(default_factory=list)


def run(jobs: Sequence[Job]) -> list[float]:
    """Return the time at which each job is over, its last latency included.

    Jobs that wait for none begin at 0, in order.
    """
    return _Run(jobs).ended


class _Run:
    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.ended = [0.0] * len(jobs)
        self._progress = [_Progress() for _ in jobs]
        self._queues: dict[int, deque[int]] = {visit.server: deque() for job in jobs for visit in job.route}
        self._events: list[tuple[float, int, int, int]] = []
        self._count = 0
        for number, job in enumerate(jobs):
            if job.leader >= 0:
                self._progress[job.leader].behind_it.append(number)
            if job.predecessor >= 0:
                self._progress[job.predecessor].followers.append(number)
            else:
                self._push(0.0, COMES, number)
        while self._events:
            now, _, what, number = heapq.heappop(self._events)
            (self._arrive if what == COMES else self._finish)(now, number)

    def _push(self, time: float, what: int, job: int) -> None:
        heapq.heappush(self._events, (time, self._count, what, job))  # of equal times, first requested first
        self._count += 1

    def _arrive(self, now: float, number: int) -> None:
        """A job is at its next server, or at its end."""
        route, progress = self._route(number), self._progress[number]
        if self._waits(number):
            progress.waits = True
        elif progress.visit == len(route):
            progress.over, self.ended[number] = True, now
            self._release(now, progress)
            for follower in progress.followers:
                self._push(now, COMES, follower)
        else:
            queue = self._queues[route[progress.visit].server]
            queue.append(number)
            if len(queue) == 1:
                self._begin(now, number)

    def _waits(self, number: int) -> bool:
        """Return whether the job that it is behind has not gone where it is about to go."""
        visit, behind = self._progress[number].visit, self.jobs[number].leader
        if behind < 0 or self._progress[behind].over:
            return False
        if visit == len(self._route(number)):
            return True
        return self._progress[behind].visit <= visit < len(self._route(behind))

    def _release(self, now: float, progress: _Progress) -> None:
        for job in progress.behind_it:
            if self._progress[job].waits:
                self._progress[job].waits = False
                self._push(now, COMES, job)

    def _route(self, number: int) -> Route:
        return self.jobs[number].route

    def _begin(self, now: float, number: int) -> None:
        self._push(now + self._route(number)[self._progress[number].visit].busy_cycles, DONE, number)

    def _finish(self, now: float, number: int) -> None:
        """A server is done with the first job of its queue."""
        progress = self._progress[number]
        visit = self._route(number)[progress.visit]
        queue = self._queues[visit.server]
        queue.popleft()
        if queue:
            self._begin(now, queue[0])
        progress.visit += 1
        self._push(now + visit.latency_cycles, COMES, number)
        self._release(now, progress)


def passes(route: Route, streams: int, count: int) -> list[Job]:
    """``count`` passes of each stream; job ``n * streams + m`` is the n-th of stream m."""
    return [Job(route, predecessor=number - streams if number >= streams else -1) for number in range(streams * count)]


def chunks(routes: Sequence[Route]) -> list[Job]:
    """Return the chunks of prompts, each behind the one before."""
    return [Job(route, leader=number - 1) for number, route in enumerate(routes)]
