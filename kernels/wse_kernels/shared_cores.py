"""The threads of kernels, as many as other programs leave cores for.

Threads that share a step wait for each other, step by step, and spin meanwhile. Where another program has taken the
core of one, all wait until it has it back, milliseconds later: passes of thousands of steps that one core does in a
second then take two on two, or fifty. So kernels go on on one core while threads have to wait for cores, and try more
of them again after a rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wse_kernels._jit import get_threads, set_threads

__all__ = ["SharedCores"]

WINDOW_S: Final = 0.05
"""Seconds of steps on all cores after which it is looked at how long threads had to wait."""
MOST_WAITING: Final = 0.25
"""Seconds in each that threads together may wait for cores: up to 0.1 on idle machines, 1 beside one busy program."""
SHORTEST_REST_S: Final = 0.25
LONGEST_REST_S: Final = 2.0
"""Seconds on one core: twice as many each time that others still have the cores."""
TASKS: Final = Path("/proc/self/task")


class SharedCores:
    """The threads of this process's kernels: all, or one while other programs want the cores too.

    Args:
        clock: Seconds of a clock.
        waited: Seconds that threads of this process were ready to run so far and had no core.
        get_threads: Tells how many threads take part in kernels, of those that the caller set beforehand.
        set_threads: Sets how many do in kernels that are called after it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        waited: Callable[[], float] | None = None,
        get_threads: Callable[[], int] = get_threads,
        set_threads: Callable[[int], None] = set_threads,
    ) -> None:
        self._clock, self._get_threads, self._set_threads = clock, get_threads, set_threads
        self._waited = _waited_s if waited is None else waited
        self._rest_s, self._is_resting = SHORTEST_REST_S, False
        self._began_s, self._waited_before_s, self._next_s = 0.0, 0.0, 0.0
        self._threads = 1  # before the rest
        self._watch(clock())

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Steps between which `adapt` is called; what comes after them has the threads that came before."""
        if self._is_resting:
            self._threads = self._get_threads()
            self._set_threads(1)
        try:
            yield
        finally:
            if self._is_resting:
                self._set_threads(self._threads)

    def adapt(self) -> None:
        """Look whether threads had to wait, where it is time to; called between steps, as often as one likes."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        if self._is_resting:
            self._is_resting = False
            self._set_threads(self._threads)
            self._watch(now_s)
            return
        waiting = (self._waited() - self._waited_before_s) / (now_s - self._began_s)
        if waiting > MOST_WAITING:
            self._is_resting, self._threads = True, self._get_threads()
            self._set_threads(1)
            self._next_s = now_s + self._rest_s
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        else:
            self._rest_s = SHORTEST_REST_S
            self._watch(now_s)

    def _watch(self, now_s: float) -> None:
        self._began_s, self._next_s = now_s, now_s + WINDOW_S
        self._waited_before_s = self._waited()


def _waited_s() -> float:
    """Return the seconds that threads of this process waited for cores.

    0 where the system does not tell, as only Linux does.
    """
    try:
        texts = [(task / "schedstat").read_text() for task in TASKS.iterdir()]
        return sum(int(text.split()[1]) for text in texts) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0
