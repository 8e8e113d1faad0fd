"""Progress of a sweep, and the message after Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from wse.reports.progress import SWEEPING, progress_on

OnRow = Callable[[int, int], None]


@contextmanager
def sweep_progress(stream: TextIO, settings: int) -> Iterator[OnRow]:
    """Yield a callback that displays the progress of a sweep.

    The callback takes (settings done, settings without an answer). After Ctrl-C, a message explains
    how to resume the sweep.

    Args:
        stream: Output stream.
        settings: Total number of settings.
    """
    stored_count = 0
    try:
        with progress_on(stream, SWEEPING) as on_progress:

            def on_row(count: int, failed: int) -> None:
                nonlocal stored_count
                stored_count = count
                on_progress(count, settings, without_answer(failed))

            yield on_row
    except KeyboardInterrupt:
        if stored_count:
            stream.write(
                f"sweep: {stored_count:,} of {settings:,} settings are saved; the same command resumes after them\n"
            )
        raise


def without_answer(failed: int) -> str:
    """Return a text such as "3 without an answer" for failed settings; empty for 0."""
    return f"{failed:,} without an answer" if failed else ""
