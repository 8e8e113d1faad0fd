"""Adaptation of the number of kernel threads to the CPU cores that other programs leave free.

Threads that work on the same step wait for each other after every step, and spin meanwhile. If
another program has taken the core of one thread, all wait until it gets the core back, milliseconds
later. A pass of thousands of steps that takes one second on a single core may then take from two to
fifty seconds on two cores. Kernels therefore use a single core while threads have to wait for
cores, and try more cores again after a pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wse_kernels.codegen.jit import get_threads, set_threads

WINDOW_S: Final = 0.05
"""Seconds of parallel steps after which the waiting time of threads is checked."""
MAX_WAITING: Final = 0.25
"""Maximum waiting time of all threads together, in seconds per second.

It is up to 0.1 on idle machines, and about 1 next to one busy program.
"""
SHORTEST_REST_S: Final = 0.25
LONGEST_REST_S: Final = 2.0
"""Maximum length of a pause on one core, in seconds.

Pauses double from SHORTEST_REST_S on while other programs keep using the cores.
"""
TASKS: Final = Path("/proc/self/task")


class SharedCores:
    """Adaptation of the number of kernel threads to the CPU cores that other programs leave free.

    If the threads of this process had to wait for CPU cores, kernels use a single thread for a
    while. Otherwise they use all threads.

    Args:
        clock: Function that returns the current time in seconds.
        waited_s: Function that returns how long the threads of this process have waited for a core
            so far, in seconds.
        get_threads: Function that returns the number of threads that kernels use.
        set_threads: Function that sets the number of threads for kernels called later.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        waited_s: Callable[[], float] | None = None,
        get_threads: Callable[[], int] = get_threads,
        set_threads: Callable[[int], None] = set_threads,
    ) -> None:
        self._clock, self._get_threads, self._set_threads = clock, get_threads, set_threads
        self._waited = _waited_s if waited_s is None else waited_s
        self._rest_s, self._is_resting = SHORTEST_REST_S, False
        self._began_s, self._waited_before_s, self._next_s = 0.0, 0.0, 0.0
        self._threads = 1  # before the pause
        self._watch(clock())

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Adapt the number of threads during a ``with`` block, and restore it at the end.

        The block starts with one thread if other programs recently needed the CPU cores. Call
        `adapt` between the kernel calls of the block to change the number.
        """
        if self._is_resting:
            self._threads = self._get_threads()
            self._set_threads(1)
        try:
            yield
        finally:
            if self._is_resting:
                self._set_threads(self._threads)

    def adapt(self) -> None:
        """Switch to one thread if threads had to wait for CPU cores, and back after a pause.

        Call this between kernel calls, as often as you like. It returns immediately until the next
        check is due.
        """
        now_s = self._clock()
        if now_s < self._next_s:
            return
        if self._is_resting:
            self._is_resting = False
            self._set_threads(self._threads)
            self._watch(now_s)
            return
        waiting_fraction = (self._waited() - self._waited_before_s) / (now_s - self._began_s)
        if waiting_fraction > MAX_WAITING:
            self._is_resting, self._threads = True, self._get_threads()
            self._set_threads(1)
            self._next_s = now_s + self._rest_s
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        else:
            self._rest_s = SHORTEST_REST_S
            self._watch(now_s)

    def _watch(self, now_s: float) -> None:
        """Begin to measure how long threads wait for CPU cores, until the next check by `adapt`."""
        self._began_s, self._next_s = now_s, now_s + WINDOW_S
        self._waited_before_s = self._waited()


def _waited_s() -> float:
    """Return how long the threads of this process have waited for CPU cores in total, in seconds.

    The value is read from /proc, and is 0 on systems other than Linux.
    """
    try:
        texts = [(task / "schedstat").read_text() for task in TASKS.iterdir()]
        return sum(int(text.split()[1]) for text in texts) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0
