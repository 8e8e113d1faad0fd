"""What is heard of kernels that compile: a bar on a terminal, one line elsewhere, nothing where it is quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from wse.report.terminal import console_on

PATIENCE_S = 1.0  # loading compiled kernels takes less


@contextmanager
def kernel_progress(stream: TextIO) -> Iterator[Callable[[int, int, str], None]]:
    """A function that hears (done, all, name) before each kernel and at the end."""
    if not stream.isatty():
        yield _one_line(stream)
        return
    columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    name = TextColumn("{task.fields[kernel]}")
    with Progress(*columns, name, console=console_on(stream), transient=True) as progress:
        task = progress.add_task("", total=None, kernel="")

        def heard(done: int, total: int, kernel: str) -> None:
            progress.update(task, completed=done, total=total, kernel=kernel.strip("_"))
            if done == total:
                progress.stop()

        yield heard


def _one_line(stream: TextIO) -> Callable[[int, int, str], None]:
    began: list[float] = []
    said: list[bool] = []

    def heard(done: int, total: int, kernel: str) -> None:
        now = time.perf_counter()
        began.append(now)
        if done < total and not said and now - began[0] > PATIENCE_S:
            said.append(True)
            stream.write("compiling kernels, once for this machine...\n")
            stream.flush()

    return heard
