"""Patches of tiles stored on several threads at a time: what one reads and rounds, others put into SRAM meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

WAITING: Final = 2
"""Patches in flight for each thread, so that no thread waits for the caller to compute the next one."""


class PatchJob(NamedTuple):
    """The storing of a patch.

    Attributes:
        values: Those of tensors that it reads and holds.
        store: Stores them.
        tile: The name of the tile.
        elements: Those of the tile that the PEs of the patch hold.
    """

    values: int
    store: Callable[[], None]
    tile: str = ""
    elements: int = 0


def stored_patches(jobs: Iterable[PatchJob], threads: int, most_values: int) -> Iterator[PatchJob]:
    """Carry out jobs that write disjoint memory, and give each in their order once it is done.

    Jobs in flight have at most ``most_values`` values together; a job with more runs alone.

    Raises what the first of them in order raises that fails, or ``jobs`` behind them all, once those are done that were
    in flight.
    """
    waiting: deque[tuple[PatchJob, Future[None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in _with_error(jobs):
            while waiting and (
                len(waiting) >= WAITING * threads
                or job.values + sum(other.values for other, _ in waiting) > most_values
            ):
                yield _done(*waiting.popleft())
            waiting.append((job, pool.submit(job.store)))
        while waiting:
            yield _done(*waiting.popleft())


def _done(job: PatchJob, future: Future[None]) -> PatchJob:
    """Return a job, once it is executed. Raises what that raised."""
    future.result()
    return job


def _with_error(jobs: Iterable[PatchJob]) -> Iterator[PatchJob]:
    """Yield the jobs, and where they end with an error one that raises it."""
    try:
        yield from jobs
    except Exception as error:
        yield PatchJob(0, partial(_fail, error))


def _fail(error: Exception) -> None:
    raise error
