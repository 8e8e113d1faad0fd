"""Progress of work that takes long: a bar on a terminal, a line now and then elsewhere, nothing where it is brief."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from wse.report.terminal import console_on, shown

LONGEST_NAME: Final = 40
PATIENCE_S = 1.0  # loading compiled kernels takes less
EVERY_S: Final = 10.0
"""Between two lines where there is no terminal."""

COMPILING: Final = ("compiling kernels", ", once for this machine")
PREDICTING: Final = ("predicting measurements", "")
ESTIMATING: Final = ("estimating", "")
SETTING_BESIDE: Final = ("comparing", "")
EXPORTING: Final = ("exporting", "")
COMPARING: Final = ("running configurations", " by both timing models")
"""What is done, and what the line says besides."""


@contextmanager
def progress_on(stream: TextIO, work: tuple[str, str]) -> Iterator[Callable[[int, int, str], None]]:
    """A function that hears (done, all, name) before each piece of the work and at the end."""
    what, besides = work
    if not stream.isatty():
        yield _lines(stream, what, besides)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), *times)
    piece = TextColumn("{task.fields[name]}", markup=False)
    with Progress(*columns, piece, console=console_on(stream), transient=True) as progress:
        task = progress.add_task("", total=None, name="")

        def heard(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, name=shown(name.strip("_"))[:LONGEST_NAME])
            if done == total:
                progress.stop()

        yield heard


def _lines(stream: TextIO, what: str, besides: str) -> Callable[[int, int, str], None]:
    """One line once the work is slow, then one now and then with how long it takes yet at the pace so far."""
    began: list[float] = []
    last: list[float] = []

    def write(text: str, now: float) -> None:
        last.append(now)
        stream.write(f"{text}\n")
        stream.flush()

    def heard(done: int, total: int, name: str) -> None:
        now = time.perf_counter()
        began.append(now)
        if done < total and not last and now - began[0] > PATIENCE_S:
            write(f"{what}{besides}...", now)
        elif 0 < done < total and last and now - last[-1] >= EVERY_S:
            left_s = (now - began[0]) / done * (total - done)
            write(f"{what}: {done:,} of {total:,}, {duration(left_s)} left", now)

    return heard


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"
