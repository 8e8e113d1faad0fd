"""Pool of processes that compute items one at a time and return each output as it finishes.

Each worker is a process with its own pipe. If a worker is killed, either by the system for lack of
memory or manually, only its current item is lost. The item is then retried once. If the pool's own
process is killed, pipes and workers end.

Workers are spawned: they inherit no locks, threads or open files. They also do not run the script
that started them, so the script needs no ``if __name__ == "__main__"``.
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

MAX_TRIES: Final = 2
MAX_JOBS: Final = 4096
_SPAWN: Final = multiprocessing.get_context("spawn")

Output = TypeVar("Output")


class Queue:
    """Queue of items that several worker processes still have to compute.

    The items are divided into groups, because results cached for one item of a group help to
    compute the next one. A worker without items takes a new group. If no group is left, it takes
    half of the remaining items of the worker that has the most.
    """

    def __init__(self, groups: Iterable[list[int]]) -> None:
        self._waiting = deque(deque(group) for group in groups)
        self._items_of_worker: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """Return the next item for a worker to compute, or None if no items are left for it."""
        items = self._items_of_worker.setdefault(worker, deque())
        if not items and self._waiting:
            items = self._waiting.popleft()
        elif not items:
            longest_group = max(self._items_of_worker.values(), key=len)
            items = deque(reversed([longest_group.pop() for _ in range((len(longest_group) + 1) // 2)]))
        self._items_of_worker[worker] = items
        return items.popleft() if items else None

    def retry(self, worker: int, item: int) -> None:
        """Put a failed item back, so that the same worker gets it as its next item."""
        self._items_of_worker[worker].appendleft(item)


@dataclass(frozen=True, slots=True)
class Task(Generic[Output]):
    """A function that worker processes call for each item, with wording for error messages.

    Attributes:
        function: A function at the top level of its module. Each worker imports the module once.
        arguments: Function that returns the arguments for an item. Arguments and outputs are
            pickled.
        owner: Owner of the processes in error messages, such as "the sweep".
        start_remedy: Advice for the user if a process cannot start.
        kill_remedy: Advice for the user if a process is killed.
    """

    function: Callable[..., Output]
    arguments: Callable[[int], tuple[Any, ...]]
    owner: str
    start_remedy: str
    kill_remedy: str


@dataclass(frozen=True, slots=True)
class KilledItem:
    """Outcome of an item whose worker process was killed each time it tried to compute the item.

    Attributes:
        reason: Explanation for the user, with a remedy.
    """

    reason: str


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_count(jobs: int | None) -> int:
    """Check the option ``--jobs`` and return the number of processes.

    None means one process per available core.

    Raises:
        BadInput: The number is out of range.
    """
    if jobs is None:
        return cores()
    if not 1 <= jobs <= MAX_JOBS:
        raise BadInput(f"--jobs {jobs}: give a number of processes from 1 to {MAX_JOBS:,}")
    return jobs


def outputs(queue: Queue, jobs: int, task: Task[Output]) -> Iterator[tuple[int, Output | KilledItem]]:
    """Compute an output for each item of a queue with several processes.

    1. Give each worker an item. A worker starts its process when it gets its first item.
    2. Wait for a message. Yield an output, or retry the item if its process was killed.
    3. Give the worker its next item, until the queue is empty.

    If the caller stops iterating, all workers are killed.

    Args:
        queue: The items.
        jobs: Number of processes.
        task: The function to call for each item, its arguments, and wording for errors.

    Yields:
        Each item with its output, in order of completion. The output is a `KilledItem` if the
        item's process was killed `MAX_TRIES` times.

    Raises:
        BadInput: A process cannot start.
    """
    workers = [_Worker(number, task) for number in range(jobs)]
    tries: Counter[int] = Counter()
    try:
        busy = [worker for worker in workers if worker.take(queue)]  # 1
        while busy:
            ready = wait([worker.pipe for worker in busy])  # 2
            for worker in [worker for worker in busy if worker.pipe in ready]:
                item, message = worker.item, worker.receive()
                if message == READY:
                    continue
                if message is not None:
                    yield item, message
                else:
                    tries[item] += 1
                    if tries[item] < MAX_TRIES:
                        queue.retry(worker.number, item)
                    else:
                        code = _exit_of(worker.process.exitcode)
                        yield item, KilledItem(f"its process was ended {MAX_TRIES} times ({code}); {task.kill_remedy}")
                    worker.restart()
                if not worker.take(queue):  # 3
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end()


class _Worker(Generic[Output]):
    """A worker process of the pool, and the pipe to it.

    The process is started when the worker gets its first item.
    """

    def __init__(self, number: int, task: Task[Output]) -> None:
        self.number = number
        self.item = -1
        self._task = task
        self._started = self._ready = False

    def take(self, queue: Queue) -> bool:
        """Take the next item from the queue and send it to the process.

        Returns:
            False if no items are left.
        """
        item = queue.next(self.number)
        if item is None:
            return False
        if not self._started:
            self._start()
        self.item = item
        with contextlib.suppress(OSError):  # the process is dead; `receive` detects this
            self.pipe.send(self._task.arguments(item))
        return True

    def receive(self) -> Any:
        """Wait for the next message of the process.

        Returns:
            `READY` first, then the output of each item. None if the process has died.

        Raises:
            BadInput: The process died before it was ready, so another process would die too.
        """
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            if not self._ready:
                code, task = _exit_of(self.process.exitcode), self._task
                raise BadInput(f"a process of {task.owner} could not start ({code}); {task.start_remedy}") from None
            return None
        self._ready = True
        return message

    def restart(self) -> None:
        """Discard the dead process, so that the next item starts a new one."""
        self.end()
        self._started = self._ready = False

    def end(self) -> None:
        """Kill the process, even while it is computing."""
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
    """Block Ctrl-C in child processes that are started while this context is active.

    The terminal sends Ctrl-C to all processes. The children never receive it, and the calling
    process receives it when the context ends.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # else the first process starts it and unblocks the signal
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextlib.contextmanager
def _main_left_out() -> Iterator[None]:
    """Prevent child processes that are started in this context from importing the main module.

    Otherwise, `multiprocessing` would run the main script again in each child.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _exit_of(code: int | None) -> str:
    return f"by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
