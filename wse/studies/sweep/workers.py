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
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Final

from wse.errors import WseError
from wse.studies.estimate import estimate
from wse.studies.estimate_request import EstimateRequest
from wse.studies.sweep.row import Entry, flat
from wse.studies.sweep.share_out import Queue

MOST_TRIES: Final = 2
_SPAWN: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a setting: the line of its `Entry`; the traceback of a bug of ours, if it ended in one."""

    setting: int
    line: bytes
    failed: bool
    bug: str = ""


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
                setting, answer = worker.setting, worker.answer()
                if answer is None:
                    tries[setting] += 1
                    if tries[setting] < MOST_TRIES:
                        queue.again(worker.number, setting)
                    else:
                        yield _killed(setting, worker.process.exitcode)
                    worker.restart()
                else:
                    yield answer
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
        self._started = False

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

    def answer(self) -> Answer | None:
        """What came of the setting; None where the process has died."""
        try:
            found = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return None
        assert isinstance(found, Answer)
        return found

    def restart(self) -> None:
        """Forget a process that has died."""
        self.end()
        self._started = False

    def end(self) -> None:
        """Kill the process, whatever it is at: what it has answered is kept elsewhere."""
        if self._started:
            self.process.kill()
            self.process.join()
            self.pipe.close()

    def _start(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection) -> None:
    """What a worker's process does until its pipe ends."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(*pipe.recv()))


def _answer(setting: int, request: EstimateRequest) -> Answer:
    try:
        return Answer(setting, Entry(setting=setting, row=flat(estimate(request))).line(), failed=False)
    except WseError as error:
        return _failure(setting, str(error))
    except Exception as error:
        return _failure(setting, f"a bug of wse: {type(error).__name__}: {error}", traceback.format_exc())


def _killed(setting: int, code: int | None) -> Answer:
    times = f"its process was ended {MOST_TRIES} times (exit code {code}, a signal's below 0)"
    return _failure(setting, f"{times}; if memory ran out, sweep again with fewer --jobs")


def _failure(setting: int, error: str, bug: str = "") -> Answer:
    return Answer(setting, Entry(setting=setting, error=error).line(), failed=True, bug=bug)
