"""Kernels use a single core while other programs use the others, and return to all cores later."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from wse_kernels.shared_cores import LONGEST_REST_S, SHORTEST_REST_S, TASKS, WINDOW_S, SharedCores, _waited_s


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
        found, end_s = [], self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += WINDOW_S / 7
            self.waited_s += waiting * WINDOW_S / 7 * (self.threads > 1)
            self.cores.adapt()
            found.append(self.threads)
        return found


def test_an_idle_machine_keeps_all_threads() -> None:
    assert set(Machine().run(5.0, waiting=0.05)) == {4}


def test_threads_that_wait_leave_one_which_works_nearly_all_the_time() -> None:
    machine = Machine()
    found = machine.run(60.0, waiting=1.0)
    assert found.count(1) / len(found) > LONGEST_REST_S / (LONGEST_REST_S + 3 * WINDOW_S)


def test_all_come_back_soon_after_the_others_have_gone() -> None:
    machine = Machine()
    machine.run(60.0, waiting=1.0)
    found = machine.run(2 * LONGEST_REST_S, waiting=0.0)
    assert found.index(4) * WINDOW_S / 7 < LONGEST_REST_S + WINDOW_S
    assert 1 not in found[found.index(4) :]
    first = machine.run(SHORTEST_REST_S, waiting=1.0)
    assert first.count(1) * WINDOW_S / 7 <= SHORTEST_REST_S  # the rests are short again


def test_a_rest_goes_on_in_the_next_steps_and_nowhere_between() -> None:
    machine = Machine()
    with machine.cores.steps():
        assert machine.run(3 * WINDOW_S, waiting=1.0)[-1] == 1
    assert machine.threads == 4
    with machine.cores.steps():
        assert machine.threads == 1
        machine.run(2 * LONGEST_REST_S, waiting=0.0)
    assert machine.threads == 4


@pytest.mark.skipif(not list(TASKS.glob("*/schedstat")), reason="the system does not tell how long threads waited")
def test_waiting_for_a_core_is_seen() -> None:
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
