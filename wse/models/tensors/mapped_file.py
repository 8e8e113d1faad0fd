"""Files mapped into memory: their bytes come and go by pages, and are never read as a whole."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wse.errors import BadModel


class MappedFile:
    """A regular file, mapped read-only. ``bytes`` is uint8 ``[size]``; views of it keep the mapping alive."""

    def __init__(self, path: Path) -> None:
        """Map the file.

        Raises:
            BadModel: it is missing, is not a regular file, is empty, or cannot be read.
        """
        try:
            if not path.is_file():
                msg = f"{path}: does not exist or is not a regular file; fetch it, or correct the name"
                raise BadModel(msg)
            if path.stat().st_size == 0:
                msg = f"{path}: is empty; fetch the file again"
                raise BadModel(msg)
            with path.open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            msg = f"{path}: cannot be read ({error}); check the path and its permissions"
            raise BadModel(msg) from error
        self.path = path
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)

    def let_go(self) -> None:
        """Take the pages touched so far off this process; whoever reads them again gets them from the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
