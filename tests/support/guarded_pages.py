"""Arrays between two pages that nobody may touch: a process that reads or writes beyond their ends is ended."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

NO_ACCESS = 0


def between_pages(array: npt.NDArray[Any], *, at_end: bool) -> npt.NDArray[Any]:
    """A copy of an array that ends where a page ends, or begins where one begins; the pages beside it are closed."""
    page, size = mmap.PAGESIZE, array.nbytes
    inside = -(-size // page) * page
    region = mmap.mmap(-1, inside + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for closed in (base, base + page + inside):
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(closed), ctypes.c_size_t(page), NO_ACCESS):
            message = "mprotect closed no page"
            raise OSError(message)
    start = page + (inside - size if at_end else 0)
    placed = np.frombuffer(region, array.dtype, array.size, start).reshape(array.shape)
    placed[...] = array
    return placed
