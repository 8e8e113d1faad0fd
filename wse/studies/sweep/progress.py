"""How far a sweep is and how long it takes yet: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wse.report.progress import EVERY_S, duration
from wse.report.terminal import console_on

OnRow = Callable[[int, int], None]


@contextmanager
def sweep_progress(stream: TextIO, settings: int, clock: Callable[[], float] = time.monotonic) -> Iterator[OnRow]:
    """Yield a function to call with (done, without an answer) at the start and after each setting.

    Says how to go on when Ctrl-C ends what is done with it.
    """
    kept = 0
    try:
        with _display_on(stream, settings, clock) as display:

            def on_row(done: int, failed: int) -> None:
                nonlocal kept
                kept = done
                display(done, failed)

            yield on_row
    except KeyboardInterrupt:
        if kept:
            stream.write(f"sweep: {kept:,} of {settings:,} settings are kept; the same command goes on after them\n")
        raise


@contextmanager
def _display_on(stream: TextIO, settings: int, clock: Callable[[], float]) -> Iterator[OnRow]:
    if not stream.isatty():
        yield _Lines(stream, settings, clock).display
        return
    columns = (
        TextColumn("sweeping"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console_on(stream), transient=True) as progress:
        task = progress.add_task("", total=settings, failed="")

        def display(done: int, failed: int) -> None:
            progress.update(task, completed=done, failed=f"{failed:,} without an answer" if failed else "")

        yield display


class _Lines:
    """Lines on a stream; what is left is taken to go as fast as what was done in this process."""

    def __init__(self, stream: TextIO, settings: int, clock: Callable[[], float]) -> None:
        self._stream, self._settings, self._clock = stream, settings, clock
        self._began: tuple[float, int] | None = None
        self._last_line_s = 0.0

    def display(self, done: int, failed: int) -> None:
        now = self._clock()
        if self._began is None:
            self._began, self._last_line_s = (now, done), now
            if done:
                self._write(f"sweep: going on after {done:,} of {self._settings:,} settings")
        elif now - self._last_line_s >= EVERY_S and done < self._settings:
            self._last_line_s = now
            start, before = self._began
            left_s = (now - start) / (done - before) * (self._settings - done)
            without = f", {failed:,} without an answer" if failed else ""
            self._write(f"sweep: {done:,} of {self._settings:,} settings{without}, {duration(left_s)} left")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
