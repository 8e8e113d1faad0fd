"""What is heard of work that may take long: a bar on a terminal, one line elsewhere, nothing where it is quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from wse.report.terminal import console_on, shown

LONGEST_NAME: Final = 40
PATIENCE_S = 1.0  # loading compiled kernels takes less

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
        yield _one_line(stream, f"{what}{besides}...\n")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    piece = TextColumn("{task.fields[name]}", markup=False)
    with Progress(*columns, piece, console=console_on(stream), transient=True) as progress:
        task = progress.add_task("", total=None, name="")

        def heard(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, name=shown(name.strip("_"))[:LONGEST_NAME])
            if done == total:
                progress.stop()

        yield heard


def _one_line(stream: TextIO, text: str) -> Callable[[int, int, str], None]:
    began: list[float] = []
    said: list[bool] = []

    def heard(done: int, total: int, name: str) -> None:
        now = time.perf_counter()
        began.append(now)
        if done < total and not said and now - began[0] > PATIENCE_S:
            said.append(True)
            stream.write(text)
            stream.flush()

    return heard
