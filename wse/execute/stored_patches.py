"""Patches of tiles stored on several threads at a time: what one reads and rounds, others put into SRAM meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

WAITING: Final = 2
"""Patches for each thread that are on their way, so that none waits for the caller to work out the next one."""


class PatchJob(NamedTuple):
    """The storing of a patch. ``values`` are those of tensors that it reads and holds."""

    values: int
    store: Callable[[], None]


def store_patches(jobs: Iterable[PatchJob], threads: int, most_values: int) -> None:
    """Carry out jobs that write disjoint memory; one of more than ``most_values`` while there is no other.

    Raises what the first of them in order raises that fails, once those are done that were on their way.
    """
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in jobs:
            is_alone = job.values > most_values
            while len(waiting) > (0 if is_alone else WAITING * threads - 1):
                waiting.popleft().result()
            waiting.append(pool.submit(job.store))
            if is_alone:
                waiting.popleft().result()
        for future in waiting:
            future.result()
