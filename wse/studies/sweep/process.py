"""What a worker's process runs. Imports nothing at first, so that it can say how libraries should load.

Libraries of linear algebra start a thread a core when they load, in each of as many processes as there are cores: on a
large machine more threads than a user may have. What a worker does has no use for them.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from typing import Final

ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
READY: Final = "ready"


def work(pipe: Connection) -> None:
    """Send READY, then answer each (setting, request) that comes through a pipe with its `Answer`, until that ends."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")

    from wse.studies.sweep.answer import answer

    with contextlib.suppress(EOFError, OSError):
        pipe.send(READY)
        while True:
            pipe.send(answer(*pipe.recv()))
