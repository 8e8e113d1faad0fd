"""Handle a standard output whose reader goes away before a command ends, as ``head`` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def while_read(write: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that writes to stdout, and discards all text once the reader has closed it.

    A program such as ``head`` closes the pipe from stdout when it has read enough. No error is
    raised then.

    Args:
        write: Function that writes text to stdout.
    """

    def write_or_drop(text: str) -> None:
        """Write text to stdout, or discard this and all later text if the pipe is closed."""
        try:
            write(text)
        except BrokenPipeError:
            drop_stdout()

    return write_or_drop


def drop_stdout() -> None:
    """Discard everything that is written to stdout from now on.

    Later writes and the flush at exit then raise no error.
    """
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # stdout is not a real file, as in tests
        pass
