"""Patches that are stored on several threads: as many at a time, large ones alone, the first error in their order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from wse.execute.stored_patches import PatchJob, store_patches

THREADS, MOST_VALUES = 3, 100


class Begun:
    """Counts the jobs under way."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def job(self, work: Callable[[], object], others: list[int] | None = None) -> Callable[[], None]:
        """A job that does some work, and notes how many were under way with it."""

        def run() -> None:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
                if others is not None:
                    others.append(self.now)
            try:
                work()
            finally:
                with self.lock:
                    self.now -= 1

        return run


def test_as_many_are_stored_at_a_time_as_there_are_threads() -> None:
    begun, meeting = Begun(), threading.Barrier(THREADS, timeout=30)
    store_patches((PatchJob(1, begun.job(meeting.wait)) for _ in range(4 * THREADS)), THREADS, MOST_VALUES)
    assert begun.most == THREADS


def test_one_of_many_values_is_stored_while_there_is_no_other() -> None:
    begun = Begun()
    under_way: list[int] = []
    jobs = [
        PatchJob(MOST_VALUES + 1, begun.job(lambda: time.sleep(0.002), under_way))
        if at % 4 == 2
        else PatchJob(MOST_VALUES, begun.job(lambda: time.sleep(0.002)))
        for at in range(16)
    ]
    store_patches(jobs, THREADS, MOST_VALUES)
    assert under_way == [1] * 4


def test_the_error_is_that_of_the_first_job_in_order_and_none_begins_long_after() -> None:
    begun, failed = [], threading.Event()

    def fail(at: int) -> None:
        if at == 1:
            assert failed.wait(30)  # the next one is sooner
        else:
            failed.set()
        raise ValueError(at)

    def run(at: int) -> None:
        begun.append(at)
        if at in (1, 2):
            fail(at)

    with pytest.raises(ValueError, match="1"):
        store_patches((PatchJob(1, lambda at=at: run(at)) for at in range(1000)), THREADS, MOST_VALUES)
    assert max(begun) < 30
