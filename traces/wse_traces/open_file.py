"""Opening a trace's HDF5 file, whether its writer closed it, still runs or was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py

from wse_traces.errors import TraceError
from wse_traces.partial import partial_path
from wse_traces.unfinished import SIGNATURE, SUPERBLOCK_BYTES, is_unfinished, open_unfinished


@contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """Open the HDF5 file: one that is closed, or one whose writer runs or was killed."""
    if not path.is_file():
        unfinished = partial_path(path) if path.name else path
        hint = f"; {unfinished} is the trace of a run that goes on or was stopped" if unfinished.is_file() else ""
        message = f"{path}: {'not a regular file' if path.exists() else 'no such file'}{hint}"
        raise TraceError(message)
    with ExitStack() as stack:
        try:
            with path.open("rb") as opened:
                start = opened.read(SUPERBLOCK_BYTES)
            if not start.startswith(SIGNATURE):
                message = f"{path}: not an HDF5 file, so no trace; give a file that wse run --trace wrote"
                raise TraceError(message)
            closed = not is_unfinished(start)
            source = h5py.File(path, "r", locking=False) if closed else open_unfinished(path, start)
            file = stack.enter_context(source)
        except TraceError:
            raise
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            message = f"{path}: cannot be opened, truncated or damaged ({reason}); make the trace again"
            raise TraceError(message) from error
        yield file
