"""Patches that are stored on several threads: as many at a time, of few values, the first error in their order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from wse.backends.execute.weight_storage.stored_patches import PatchJob, stored_patches

THREADS, MAX_VALUES = 3, 100


def store(jobs: Iterable[PatchJob], threads: int = THREADS) -> list[PatchJob]:
    """The jobs, as they come back."""
    return list(stored_patches(jobs, threads, MAX_VALUES))


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
    store(PatchJob(1, begun.job(meeting.wait)) for _ in range(4 * THREADS))
    assert begun.most == THREADS


def test_one_of_many_values_is_stored_while_there_is_no_other() -> None:
    begun = Begun()
    under_way: list[int] = []
    jobs = [
        PatchJob(MAX_VALUES + 1, begun.job(lambda: time.sleep(0.002), under_way))
        if at % 4 == 2
        else PatchJob(1, begun.job(lambda: time.sleep(0.002)))
        for at in range(16)
    ]
    assert store(jobs) == jobs
    assert under_way == [1] * 4
    assert begun.most > 1


def test_those_under_way_have_few_values_however_many_threads_there_are() -> None:
    begun, meeting = Begun(), threading.Barrier(2, timeout=30)
    store((PatchJob(MAX_VALUES // 2, begun.job(meeting.wait)) for _ in range(16)), threads=8)
    assert begun.most == 2


def test_they_come_back_in_their_order_once_they_are_stored() -> None:
    ended: list[int] = []

    def run(at: int) -> None:
        time.sleep(0.002 * (at % 3 == 0))
        ended.append(at)

    jobs = [PatchJob(1, lambda at=at: run(at), f"{at}") for at in range(12)]
    for at, job in enumerate(stored_patches(jobs, THREADS, MAX_VALUES)):
        assert job is jobs[at]
        assert at in ended


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
        store(PatchJob(1, lambda at=at: run(at)) for at in range(1000))
    assert max(begun) < 30


@pytest.mark.parametrize("failing", [True, False])
def test_an_error_of_what_makes_the_jobs_comes_behind_those_of_the_jobs_before(*, failing: bool) -> None:
    made, stored = threading.Event(), []

    def run() -> None:
        assert made.wait(30)
        if failing:
            message = "of a job"
            raise ValueError(message)
        stored.append(1)

    def jobs() -> Iterator[PatchJob]:
        yield PatchJob(1, run)
        made.set()
        message = "of what makes them"
        raise ValueError(message)

    with pytest.raises(ValueError, match="of a job" if failing else "of what makes them"):
        store(jobs())
    assert len(stored) == (not failing)
