"""Progress of long computations: a bar on a terminal, occasional lines elsewhere.

Nothing is shown for short computations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Final, NamedTuple, TextIO

OnProgress = Callable[[int, int, str], None]
"""Function called with the number of finished parts, the total number, and the name of a part."""

LONGEST_NAME: Final = 40
PATIENCE_S: Final = 1.0
"""Time before the first line if there is no terminal. Loading compiled kernels takes less."""
EVERY_S: Final = 10.0
"""Time between two lines if there is no terminal."""


class Work(NamedTuple):
    """Description of a type of long computation, for the display of its progress.

    Attributes:
        name: Name of the computation.
        start: First line to print when the computation turns out to be slow. ``{total}`` stands for
            the total number of parts. No such line is printed if this is empty.
        unit: Unit of the parts, printed after their number.
        says_name: Whether lines contain the name of the current part.
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
    """Do nothing, as a substitute for functions that show progress, text or warnings."""


@contextmanager
def progress_on(stream: TextIO, work: Work) -> Iterator[OnProgress]:
    """Yield a function that shows progress. Call it before each part of the work and at the end.

    On a terminal, it draws a bar; otherwise, it writes lines. The bar appears at the first call, so
    that only one bar is visible when several computations follow each other.

    Args:
        stream: Stream to write to, such as stderr.
        work: Description of the computation.
    """
    if not stream.isatty():
        yield _Lines(stream, work).update
        return
    with ExitStack() as bar_stack:
        bar = cache(lambda: bar_stack.enter_context(_bar(stream, work)))
        yield lambda count, total, name: bar()(count, total, name)


@contextmanager
def _bar(stream: TextIO, work: Work) -> Iterator[OnProgress]:
    """Show a progress bar on a terminal until the context ends.

    Yields:
        The function that updates the bar.
    """
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

        def update(count: int, total: int, name: str) -> None:
            """Show the progress on the bar, and remove the bar when all parts are finished.

            Args:
                count: Number of finished parts.
                total: Total number of parts.
                name: Name of the current part.
            """
            progress.update(task, completed=count, total=total, name=printable(name.strip("_"))[:LONGEST_NAME])
            if count == total:
                progress.stop()

        yield update


class _Lines:
    """Progress display that writes lines, for a stream that is not a terminal.

    The remaining time is extrapolated from the parts that this process has finished.
    """

    def __init__(self, stream: TextIO, work: Work) -> None:
        self._stream, self._work = stream, work
        self._start_s, self._done_before = 0.0, -1
        self._last_line_s: float | None = None

    def update(self, count: int, total: int, name: str) -> None:
        """Write a line with the progress and the remaining time, unless the last line is recent.

        Args:
            count: Number of finished parts.
            total: Total number of parts.
            name: Name of the current part.
        """
        work, now_s = self._work, time.perf_counter()
        if self._done_before < 0:
            self._start_s, self._done_before = now_s, count
            if count:
                self._write(f"{work.name}: going on after {count:,} of {total:,}{work.unit}", now_s)
            elif not work.start:
                self._last_line_s = now_s
        elif count >= total:
            return
        elif self._last_line_s is None:
            if now_s - self._start_s > PATIENCE_S:
                self._write(work.start.format(total=total), now_s)
        elif count > self._done_before and now_s - self._last_line_s >= EVERY_S:
            left_s = (now_s - self._start_s) / (count - self._done_before) * (total - count)
            part = f", {name}" if work.says_name and name else ""
            self._write(f"{work.name}: {count:,} of {total:,}{work.unit}{part}, {duration(left_s)} left", now_s)

    def _write(self, line: str, now_s: float) -> None:
        """Write a line to the stream, and remember the time of the last line."""
        self._last_line_s = now_s
        self._stream.write(f"{line}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
