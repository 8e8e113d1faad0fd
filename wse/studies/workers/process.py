"""The main function of a worker's process. It imports nothing at first, so that it can set how libraries load.

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
    """Receive a function, send READY, then the function's output for each tuple of arguments that comes, to the end.

    Receiving the function loads the module that it is in, with all that this imports.
    """
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")

    with contextlib.suppress(EOFError, OSError):
        function = pipe.recv()
        pipe.send(READY)
        while True:
            pipe.send(function(*pipe.recv()))
