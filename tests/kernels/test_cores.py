"""Tests of kernels on several cores, and of cores that are shared with other programs."""

import os
import subprocess
import sys
import time
from typing import Any

import numba
import numpy as np
import pytest

from wse_kernels.codegen.cores import over_cores
from wse_kernels.codegen.jit import part_function, spread_kernel
from wse_kernels.shared_cores import LONGEST_REST_S, SHORTEST_REST_S, TASKS, WINDOW_S, SharedCores, _waited_s


@part_function
def count_visits(begin: int, end: int, visits: Any, factor: int) -> None:
    for i in range(begin, end):
        visits[i] += factor


@spread_kernel
def count_all(visits: Any, begin: int, factor: int) -> None:
    over_cores(count_visits, begin, len(visits), (visits, factor))


@part_function
def refuse(begin: int, end: int, index: int) -> None:
    if begin <= index < end:
        raise ValueError


@spread_kernel
def refuse_all(count: int, index: int) -> None:
    over_cores(refuse, 0, count, (index,))


@pytest.mark.parametrize("threads", [1, numba.config.NUMBA_NUM_THREADS])
def test_every_index_is_visited_once(threads: int) -> None:
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        for count in (1, 2, 3, 7, 1000):
            visits = np.zeros(count, np.int64)
            count_all(visits, count // 3, 5)
            assert visits.tolist() == [0] * (count // 3) + [5] * (count - count // 3)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("index", [0, 6])
def test_an_error_on_any_core_is_raised(index: int) -> None:
    refuse_all(7, 7)
    with pytest.raises((IndexError, ValueError)):
        refuse_all(7, index)


class Machine:
    """Simulated machine: a clock, the waiting time of threads, and the number of kernel threads."""

    def __init__(self) -> None:
        self.now_s, self.waited_s, self.threads = 0.0, 0.0, 4
        self.cores = SharedCores(lambda: self.now_s, lambda: self.waited_s, lambda: self.threads, self._set)

    def _set(self, threads: int) -> None:
        self.threads = threads

    def run(self, seconds: float, waiting: float) -> list[int]:
        """Return the number of threads after each of many steps.

        ``waiting`` is the waiting time per second while there are several threads.
        """
        threads, end_s = [], self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += WINDOW_S / 7
            self.waited_s += waiting * WINDOW_S / 7 * (self.threads > 1)
            self.cores.adapt()
            threads.append(self.threads)
        return threads


def test_an_idle_machine_keeps_all_threads() -> None:
    assert set(Machine().run(5.0, waiting=0.05)) == {4}


def test_waiting_threads_are_reduced_to_one_nearly_all_the_time() -> None:
    machine = Machine()
    threads = machine.run(60.0, waiting=1.0)
    assert threads.count(1) / len(threads) > LONGEST_REST_S / (LONGEST_REST_S + 3 * WINDOW_S)


def test_all_threads_return_soon_after_other_programs_end() -> None:
    machine = Machine()
    machine.run(60.0, waiting=1.0)
    threads = machine.run(2 * LONGEST_REST_S, waiting=0.0)
    assert threads.index(4) * WINDOW_S / 7 < LONGEST_REST_S + WINDOW_S
    assert 1 not in threads[threads.index(4) :]
    first = machine.run(SHORTEST_REST_S, waiting=1.0)
    assert first.count(1) * WINDOW_S / 7 <= SHORTEST_REST_S  # pauses are short again


def test_pause_applies_only_to_steps_and_continues_in_the_next_steps() -> None:
    machine = Machine()
    with machine.cores.steps():
        assert machine.run(3 * WINDOW_S, waiting=1.0)[-1] == 1
    assert machine.threads == 4
    with machine.cores.steps():
        assert machine.threads == 1
        machine.run(2 * LONGEST_REST_S, waiting=0.0)
    assert machine.threads == 4


@pytest.mark.skipif(not list(TASKS.glob("*/schedstat")), reason="the system does not report how long threads waited")
def test_waiting_for_a_core_is_measured() -> None:
    """Two processes share one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            began_s, waited_s = time.perf_counter(), _waited_s()
            while time.perf_counter() < began_s + 0.3:
                pass
            other.kill()
        assert _waited_s() - waited_s > 0.05
    finally:
        os.sched_setaffinity(0, cores)
