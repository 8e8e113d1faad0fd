"""Main function of a worker process. The module imports little, so that it can limit threads.

Linear-algebra libraries start one thread per core when loaded. With one process per core on a large
machine, this would exceed a user's thread limit, and workers do not need these threads.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from typing import Final

from wse.garbage_collection import collect_rarely

ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
READY: Final = "ready"


def work(pipe: Connection) -> None:
    """Call one function repeatedly in a worker process, until the pipe is closed.

    The first object on the pipe is the function; receiving it imports its module. Then `READY` is
    sent. For each tuple of arguments that follows, the function's output is sent back.
    """
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    collect_rarely()
    with contextlib.suppress(EOFError, OSError):
        function = pipe.recv()
        pipe.send(READY)
        while True:
            pipe.send(function(*pipe.recv()))
