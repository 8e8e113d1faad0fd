"""Progress of work that takes long: a bar on a terminal, a line now and then elsewhere, nothing where it is brief."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple, TextIO

OnProgress = Callable[[int, int, str], None]
"""Called with the pieces that are done, the number of all, and the name of a piece or what else is to be said."""

LONGEST_NAME: Final = 40
PATIENCE_S: Final = 1.0
"""Time before the first line where there is no terminal: loading compiled kernels takes less."""
EVERY_S: Final = 10.0
"""Time between two lines where there is no terminal."""


class Work(NamedTuple):
    """A kind of work that takes long.

    Attributes:
        name: What is done.
        start: The line once the work is slow, with ``{total}`` for the number of all; none where this is empty.
        unit: What is counted, behind its number.
        says_name: Whether lines have the name of the piece.
    """

    name: str
    start: str = ""
    unit: str = ""
    says_name: bool = False


STORING: Final = Work("storing weights", unit=" values")
GENERATING: Final = Work("running", unit=" tokens")
COMPILING: Final = Work("compiling kernels", "compiling kernels, {total} that no earlier run has kept...")
PREDICTING: Final = Work("predicting measurements", "predicting measurements...")
ESTIMATING: Final = Work("estimating", "estimating...")
COMPARING: Final = Work("comparing", "comparing...")
EXPORTING: Final = Work("exporting", "exporting...")
ANSWERING: Final = Work("working out", "working out combinations...", unit=" placements", says_name=True)
CLAIMING: Final = Work("deciding claims", unit=" claims", says_name=True)
VALIDATING: Final = Work("running configurations", "running configurations by both timing models...")
TRYING: Final = Work("trying changes", "trying changes...", unit=" machines", says_name=True)
FITTING: Final = Work("fitting", "fitting constants...", says_name=True)
SERVING: Final = Work("serving", "serving...", unit=" requests")
SWEEPING: Final = Work("sweep", unit=" settings", says_name=True)


def ignore(*details: object) -> None:
    """Show no progress, text or warning."""


@contextmanager
def progress_on(stream: TextIO, work: Work) -> Iterator[OnProgress]:
    """Yield a function to call with (done, all, name) before each piece of the work and at the end.

    A bar is shown from the first call on, so that works that come one after another take turns on a terminal.
    """
    if not stream.isatty():
        yield _Lines(stream, work).update
        return
    bar: list[OnProgress] = []
    with ExitStack() as shown:

        def update(done: int, total: int, name: str) -> None:
            if not bar:
                bar.append(shown.enter_context(_bar(stream, work)))
            bar[0](done, total, name)

        yield update


@contextmanager
def _bar(stream: TextIO, work: Work) -> Iterator[OnProgress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from wse.reports.terminal import console_on, printable

    times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    columns = (TextColumn(work.name), BarColumn(), MofNCompleteColumn(), *times)
    piece = TextColumn("{task.fields[name]}", markup=False)
    with Progress(*columns, piece, console=console_on(stream), transient=True) as progress:
        task = progress.add_task("", total=None, name="")

        def update(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, name=printable(name.strip("_"))[:LONGEST_NAME])
            if done == total:
                progress.stop()

        yield update


class _Lines:
    """Lines on a stream that is no terminal; the time left is at the pace of what was done in this process."""

    def __init__(self, stream: TextIO, work: Work) -> None:
        self._stream, self._work = stream, work
        self._start_s, self._done_before = 0.0, -1
        self._last_line_s: float | None = None

    def update(self, count: int, total: int, name: str) -> None:
        """Write a line where it is time for one."""
        work, now = self._work, time.perf_counter()
        if self._done_before < 0:
            self._start_s, self._done_before = now, count
            if count:
                self._write(f"{work.name}: going on after {count:,} of {total:,}{work.unit}", now)
            elif not work.start:
                self._last_line_s = now
        elif count >= total:
            return
        elif self._last_line_s is None:
            if now - self._start_s > PATIENCE_S:
                self._write(work.start.format(total=total), now)
        elif count > self._done_before and now - self._last_line_s >= EVERY_S:
            left_s = (now - self._start_s) / (count - self._done_before) * (total - count)
            piece = f", {name}" if work.says_name and name else ""
            self._write(f"{work.name}: {count:,} of {total:,}{work.unit}{piece}, {duration(left_s)} left", now)

    def _write(self, line: str, now: float) -> None:
        self._last_line_s = now
        self._stream.write(f"{line}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
