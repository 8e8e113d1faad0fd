"""Processes that work on settings, one at a time each, and what comes of them as it does.

A worker is a process behind a pipe of its own. One that is killed, by the system for its memory or by hand, takes along
no more than its setting, which is then done once more; and when the sweep's process is killed, pipes and workers end.
Processes are spawned: nothing of this one (locks, threads, open files) goes along.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Final

from wse.errors import BadInput
from wse.request.estimate_request import EstimateRequest
from wse.studies.sweep.answer import Answer, failure
from wse.studies.sweep.process import READY, work
from wse.studies.sweep.share_out import Queue

MOST_TRIES: Final = 2
_SPAWN: Final = multiprocessing.get_context("spawn")


def answers(queue: Queue, jobs: int, request: Callable[[int], EstimateRequest]) -> Iterator[Answer]:
    """All that is in a queue, by ``jobs`` processes, in the order in which it is done.

    When the caller stops, workers are killed with what they are at.
    """
    workers = [_Worker(number) for number in range(jobs)]
    tries: Counter[int] = Counter()
    try:
        busy = [worker for worker in workers if worker.take(queue, request)]
        while busy:
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                setting, heard = worker.setting, worker.hear()
                if heard == READY:
                    continue
                if isinstance(heard, Answer):
                    yield heard
                else:
                    tries[setting] += 1
                    if tries[setting] < MOST_TRIES:
                        queue.again(worker.number, setting)
                    else:
                        yield _killed(setting, worker.process.exitcode)
                    worker.restart()
                if not worker.take(queue, request):
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One process, started when it first has something to do."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.setting = -1
        self._started = self._ready = False

    def take(self, queue: Queue, request: Callable[[int], EstimateRequest]) -> bool:
        """Begin with the next setting; whether there is one."""
        setting = queue.next(self.number)
        if setting is None:
            return False
        if not self._started:
            self._start()
        self.setting = setting
        with contextlib.suppress(OSError):  # it is dead, which reading from it will tell
            self.pipe.send((setting, request(setting)))
        return True

    def hear(self) -> object:
        """READY, once; then what came of each setting, an `Answer`; None where the process has died.

        Raises BadInput where the process died before it could begin, for then another would, too.
        """
        try:
            found: object = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            if not self._ready:
                message = (
                    f"a process of the sweep could not start ({_exit_of(self.process.exitcode)}); what is done is "
                    "kept: free some memory or take fewer --jobs, and give the same command again"
                )
                raise BadInput(message) from None
            return None
        self._ready = True
        return found

    def restart(self) -> None:
        """Forget a process that has died."""
        self.end()
        self._started = self._ready = False

    def end(self) -> None:
        """Kill the process, whatever it is at: what it has answered is kept elsewhere."""
        if self._started:
            self.process.kill()
            self.process.join()
            self.pipe.close()

    def _start(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=work, args=(theirs,), daemon=True)
        with _deaf_children():
            self.process.start()
        theirs.close()
        self._started = True


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal: those that start in here never hear it, this one hears it after."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which the first process would start, and then let this one hear it again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _killed(setting: int, code: int | None) -> Answer:
    times = f"its process was ended {MOST_TRIES} times ({_exit_of(code)})"
    return failure(setting, f"{times}; if memory ran out, sweep again with fewer --jobs")


def _exit_of(code: int | None) -> str:
    return f"by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
