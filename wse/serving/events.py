"""Event simulation of tokens, and of chunks of prompts, in a pipeline of stages.

The closed forms of `wse.serving.pipelining` are tested against this simulation. There are two kinds
of events: a job arrives at a server, and a server finishes a job. A server processes jobs in the
order of their arrival.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from wse.serving.route import PassRoute

ARRIVAL, VISIT_END = 0, 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job that visits servers (pipeline stages and links) one after another.

    It is a pass of a stream (batch of users) or a chunk of a prompt.

    Attributes:
        route: Visits of the job to servers, in order.
        predecessor: Index of the job that must end before this job starts; -1 if there is none.
        leader: Index of the job that this job must not overtake; -1 if there is none. This job
            starts its n-th visit only after the leader has ended its n-th visit, and it ends after
            the leader.
    """

    route: PassRoute
    predecessor: int = -1
    leader: int = -1


@dataclass(slots=True)
class _Progress:
    """The state of a job during a simulation.

    Attributes:
        visit: Index of the job's current visit to a server, or of the next one.
        has_ended: Whether the job has ended.
        waits: Whether the job waits so that it does not overtake another job.
        followers: Jobs that start when this job ends.
        blocked_jobs: Jobs that must not overtake this job.
    """

    visit: int = 0
    has_ended: bool = False
    waits: bool = False
    followers: list[int] = field(default_factory=list)
    blocked_jobs: list[int] = field(default_factory=list)


def run(jobs: Sequence[Job]) -> list[float]:
    """Simulate jobs that queue for servers, and return the time at which each job ends.

    A server is a resource that works on one job at a time, such as a pipeline stage or a link.

    Jobs without a predecessor start at time 0, in order. The end of a job includes the latency
    after its last visit.
    """
    return _Run(jobs).ended


class _Run:
    """An event simulation of jobs that queue for servers. It runs when it is created.

    Attributes:
        jobs: The jobs.
        ended: Time at which each job ends.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.ended = [0.0] * len(jobs)
        self._progress = [_Progress() for _ in jobs]
        self._queues: dict[int, deque[int]] = {visit.server: deque() for job in jobs for visit in job.route}
        self._events: list[tuple[float, int, int, int]] = []
        self._count = 0
        for index, job in enumerate(jobs):
            if job.leader >= 0:
                self._progress[job.leader].blocked_jobs.append(index)
            if job.predecessor >= 0:
                self._progress[job.predecessor].followers.append(index)
            else:
                self._push(0.0, ARRIVAL, index)
        while self._events:
            time, _, kind, index = heapq.heappop(self._events)
            (self._arrive if kind == ARRIVAL else self._finish)(time, index)

    def _push(self, time: float, kind: int, job: int) -> None:
        """Schedule an event of the simulation.

        Args:
            time: Time of the event.
            kind: ARRIVAL (of a job at a server) or VISIT_END.
            job: Index of the job.
        """
        heapq.heappush(self._events, (time, self._count, kind, job))  # at equal times, first pushed first
        self._count += 1

    def _arrive(self, time: float, index: int) -> None:
        """Process the arrival of a job at its next server, or at the end of its route.

        If the job must wait for another job, it arrives again later.

        Args:
            time: Time of the arrival.
            index: Index of the job.
        """
        route, progress = self._route(index), self._progress[index]
        if self._waits(index):
            progress.waits = True
        elif progress.visit == len(route):
            progress.has_ended, self.ended[index] = True, time
            self._release(time, progress)
            for follower in progress.followers:
                self._push(time, ARRIVAL, follower)
        else:
            queue = self._queues[route[progress.visit].server]
            queue.append(index)
            if len(queue) == 1:
                self._begin(time, index)

    def _waits(self, index: int) -> bool:
        """Return whether a job must wait for its leader, the job that it must not overtake."""
        visit, leader = self._progress[index].visit, self.jobs[index].leader
        if leader < 0 or self._progress[leader].has_ended:
            return False
        if visit == len(self._route(index)):
            return True
        return self._progress[leader].visit <= visit < len(self._route(leader))

    def _release(self, time: float, progress: _Progress) -> None:
        """Retry the jobs that have been waiting because they must not overtake another job.

        Args:
            time: Current time of the simulation.
            progress: State of this other job, which has advanced.
        """
        for job in progress.blocked_jobs:
            if self._progress[job].waits:
                self._progress[job].waits = False
                self._push(time, ARRIVAL, job)

    def _route(self, index: int) -> PassRoute:
        """Return the servers that a job visits."""
        return self.jobs[index].route

    def _begin(self, time: float, index: int) -> None:
        """Start the next visit of a job that is at the front of its server's queue.

        Args:
            time: Time at which the visit starts.
            index: Index of the job.
        """
        self._push(time + self._route(index)[self._progress[index].visit].busy_cycles, VISIT_END, index)

    def _finish(self, time: float, index: int) -> None:
        """Process the end of a job's visit to a server.

        The next job in the server's queue starts, and the job moves on to its next server.

        Args:
            time: Time at which the visit ends.
            index: Index of the job whose visit ends.
        """
        progress = self._progress[index]
        visit = self._route(index)[progress.visit]
        queue = self._queues[visit.server]
        queue.popleft()
        if queue:
            self._begin(time, queue[0])
        progress.visit += 1
        self._push(time + visit.latency_cycles, ARRIVAL, index)
        self._release(time, progress)


def passes(route: PassRoute, streams: int, count: int) -> list[Job]:
    """Return the passes of several batches of users as simulation jobs, ``count`` for each batch.

    Each batch (stream) starts its next pass when its last one has ended. Job ``n * streams + m`` is
    the n-th pass of stream m.
    """
    return [Job(route, predecessor=index - streams if index >= streams else -1) for index in range(streams * count)]


def chunks(routes: Sequence[PassRoute]) -> list[Job]:
    """Convert the chunks of a prompt to simulation jobs that must not overtake each other.

    Args:
        routes: For each chunk, its visits to servers (pipeline stages and links).
    """
    return [Job(route, leader=index - 1) for index, route in enumerate(routes)]
