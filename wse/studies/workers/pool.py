"""A pool of processes that work on items, one at a time each, and their outputs as they come.

A worker is a process behind a pipe of its own. One that is killed, by the system for its memory or by hand, takes along
no more than its item, which is then done once more; and when the process of the pool is killed, pipes and workers end.
Processes are spawned: nothing of this one (locks, threads, open files) goes along, nor do they run the script that
started it, so that a script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

from wse.errors import BadInput
from wse.studies.workers.process import READY, work

MOST_TRIES: Final = 2
MOST_JOBS: Final = 4096
_SPAWN: Final = multiprocessing.get_context("spawn")

Output = TypeVar("Output")


class Queue:
    """Items that are to be done, by group.

    A group goes to one worker, one item after another, so that what its process keeps of the first serves the others. A
    worker without a group takes over half of what is left of the longest.
    """

    def __init__(self, waiting: Iterable[list[int]]) -> None:
        self._waiting = deque(deque(group) for group in waiting)
        self._of: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """Return the next item of a worker; None where nothing is left."""
        items = self._of.setdefault(worker, deque())
        if not items and self._waiting:
            items = self._waiting.popleft()
        elif not items:
            longest = max(self._of.values(), key=len)
            items = deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))
        self._of[worker] = items
        return items.popleft() if items else None

    def retry(self, worker: int, item: int) -> None:
        """Have a worker do an item once more, before its others."""
        self._of[worker].appendleft(item)


@dataclass(frozen=True, slots=True)
class Task(Generic[Output]):
    """The work on each item.

    Attributes:
        function: A function on the top level of its module, which a worker loads once.
        arguments: Its arguments for an item; they and its output are pickled.
        owner: The owner of the processes in messages: "the sweep".
        start_remedy: A remedy for the user where a process cannot start.
        kill_remedy: A remedy for the user where one is killed.
    """

    function: Callable[..., Output]
    arguments: Callable[[int], tuple[Any, ...]]
    owner: str
    start_remedy: str
    kill_remedy: str


@dataclass(frozen=True, slots=True)
class KilledItem:
    """The outcome of an item whose process was killed each time: the reason, and a remedy."""

    reason: str


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_count(jobs: int | None) -> int:
    """Return the number of processes that ``jobs`` asks for: all cores where it is None.

    Raises BadInput out of range.
    """
    if jobs is None:
        return cores()
    if not 1 <= jobs <= MOST_JOBS:
        message = f"--jobs {jobs}: give a number of processes from 1 to {MOST_JOBS:,}"
        raise BadInput(message)
    return jobs


def outputs(queue: Queue, jobs: int, task: Task[Output]) -> Iterator[tuple[int, Output | KilledItem]]:
    """Yield the items of a queue with their outputs, computed by ``jobs`` processes, in the order in which they come.

    When the caller stops, workers are killed at their work.
    """
    workers = [_Worker(number, task) for number in range(jobs)]
    tries: Counter[int] = Counter()
    try:
        busy = [worker for worker in workers if worker.take(queue)]
        while busy:
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                item, message = worker.item, worker.receive()
                if message == READY:
                    continue
                if message is not None:
                    yield item, message
                else:
                    tries[item] += 1
                    if tries[item] < MOST_TRIES:
                        queue.retry(worker.number, item)
                    else:
                        code = _exit_of(worker.process.exitcode)
                        yield item, KilledItem(f"its process was ended {MOST_TRIES} times ({code}); {task.kill_remedy}")
                    worker.restart()
                if not worker.take(queue):
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end()


class _Worker(Generic[Output]):
    """A process of the pool, started with its first item."""

    def __init__(self, number: int, task: Task[Output]) -> None:
        self.number = number
        self.item = -1
        self._task = task
        self._started = self._ready = False

    def take(self, queue: Queue) -> bool:
        """Begin with the next item; whether there is one."""
        item = queue.next(self.number)
        if item is None:
            return False
        if not self._started:
            self._start()
        self.item = item
        with contextlib.suppress(OSError):  # it is dead, which reading from it will tell
            self.pipe.send(self._task.arguments(item))
        return True

    def receive(self) -> Any:
        """READY, once; then the output of each item; None where the process has died.

        Raises BadInput where the process died before it could begin, for then another would, too.
        """
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            if not self._ready:
                code, task = _exit_of(self.process.exitcode), self._task
                text = f"a process of {task.owner} could not start ({code}); {task.start_remedy}"
                raise BadInput(text) from None
            return None
        self._ready = True
        return message

    def restart(self) -> None:
        """Forget a process that has died."""
        self.end()
        self._started = self._ready = False

    def end(self) -> None:
        """Kill the process, at its work: the caller has its outputs."""
        if self._started:
            self.process.kill()
            self.process.join()
            self.pipe.close()

    def _start(self) -> None:
        self.pipe, worker_pipe = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=work, args=(worker_pipe,), daemon=True)
        with _interrupts_blocked(), _main_left_out():
            self.process.start()
        worker_pipe.close()
        self._started = True
        with contextlib.suppress(OSError):
            self.pipe.send(self._task.function)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal: those that start in here never get it, this one gets it after."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which the first process would start, and then unblock them for this one
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _main_left_out() -> Iterator[None]:
    """A process that starts in here finds no main module: `multiprocessing` would have it run the script again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _exit_of(code: int | None) -> str:
    return f"by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
