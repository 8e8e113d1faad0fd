"""Standard output whose reader may go away, as ``head`` does, while a command has more to do than print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def while_read(write: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that writes as ``write`` does until nobody reads any more, and then to nowhere."""

    def write_or_drop(text: str) -> None:
        try:
            write(text)
        except BrokenPipeError:
            drop_stdout()

    return write_or_drop


def drop_stdout() -> None:
    """Give stdout nowhere to go, so that neither what follows nor closing it at exit complains once more."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # not a real file
        pass
