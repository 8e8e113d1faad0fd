"""Multithreaded storage of weights: some threads read and round values while others store them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

WAITING: Final = 2
"""Maximum number of patches in flight per thread, so that no thread waits for the next job."""


class PatchJob(NamedTuple):
    """Job that stores the values of a tile (block of weights) on a patch (rectangle of PEs).

    Attributes:
        values: Number of tensor values that the job reads and keeps in memory.
        store: Function that stores the values.
        tile: Name of the tile.
        elements: Number of the tile's elements on the PEs of the patch.
    """

    values: int
    store: Callable[[], None]
    tile: str = ""
    elements: int = 0


def stored_patches(jobs: Iterable[PatchJob], threads: int, max_values: int) -> Iterator[PatchJob]:
    """Execute jobs on several threads and yield them in order; the jobs write to disjoint memory.

    Together, the jobs in flight have at most ``max_values`` values in memory. A job with more
    values runs alone. If a job or the iterator ``jobs`` fails, the jobs before it are yielded
    first. Its exception is then raised, after the jobs in flight have finished.

    Args:
        jobs: The jobs.
        threads: Number of threads.
        max_values: Limit for the sum of `PatchJob.values` over the jobs in flight.

    Yields:
        Each job, as soon as it and all jobs before it have finished.
    """
    in_flight: deque[tuple[PatchJob, Future[None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in _with_error(jobs):
            while in_flight and (
                len(in_flight) >= WAITING * threads
                or job.values + sum(earlier_job.values for earlier_job, _ in in_flight) > max_values
            ):
                yield _finished_job(*in_flight.popleft())
            in_flight.append((job, pool.submit(job.store)))
        while in_flight:
            yield _finished_job(*in_flight.popleft())


def _finished_job(job: PatchJob, future: Future[None]) -> PatchJob:
    """Wait until a job has finished and return it; raise its exception if it failed."""
    future.result()
    return job


def _with_error(jobs: Iterable[PatchJob]) -> Iterator[PatchJob]:
    """Yield the jobs. If the iterator fails, yield a last job that raises its exception."""
    try:
        yield from jobs
    except Exception as error:
        yield PatchJob(0, partial(_fail, error))


def _fail(error: Exception) -> None:
    """Raise an exception. This is the function of a job that reports an error."""
    raise error
