"""TensorEntry: one tensor of a mapped file as a model family sees it, decoded when it is requested.

Mapped bytes are loaded and released by pages, and are never read as a whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wse.errors import BadModel


class MappedFile:
    """A regular file, mapped read-only.

    ``bytes`` is uint8 ``[size]``; its views keep the mapping alive.
    """

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

    def release_pages(self) -> None:
        """Release the mapped pages that were read so far; reading them again loads them from the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


Array = NDArray[Any]
Index = tuple[int | slice, ...]
Stretch = slice | NDArray[np.intp]
Rows = Callable[[Stretch], Array]
"""Gives a stretch along the first axis, or the indices given along it; it stays an axis."""

FLOATS: dict[str, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Kinds that hold one number an element, and the element type of their arrays."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorEntry:
    """A tensor under the name that the family gives it.

    Attributes:
        name: Name.
        kind: How it is stored: the format's own name (F32, BF16, Q4_K and so on), or FP8 and MXFP4 for numbers that
            were put together with their scales.
        shape: Shape of the array, decoded.
        stored_bytes: What the file spends on it, scales included.
        file: The file that holds it.
        rows: Reads or decodes a stretch of the first axis. Plain kinds give views of the file in the file's element
            type, all others new float32 arrays.
        codes, scales: The numbers and the scales that it was put together of, with the axes of the array; numbers are
            uint8, one a byte, and each output has scales of its own. None where it is not packed.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    stored_bytes: int
    file: MappedFile
    rows: Rows
    codes: TensorEntry | None = None
    scales: TensorEntry | None = None

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    def array(self, index: Index = ()) -> Array:
        """Return ``tensor[index]``, decoding only the range of the first axis that the index selects."""
        if not index:
            return self.rows(slice(None))
        first, inner_index = index[0], index[1:]
        if isinstance(first, int):
            return self.rows(slice(first, first + 1))[(0, *inner_index)]
        return self.rows(first)[(slice(None), *inner_index)]


def plain_entry(name: str, kind: str, array: Array, file: MappedFile) -> TensorEntry:
    """Return a tensor that is a view of the file."""
    array.flags.writeable = False
    return TensorEntry(
        name=name,
        kind=kind,
        shape=array.shape,
        stored_bytes=array.nbytes,
        file=file,
        rows=lambda rows: array[rows] if array.ndim else array,
    )


def mapped_array(file: MappedFile, begin: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a view of the file's bytes from ``begin``; the caller has checked the range."""
    return np.ndarray(shape, dtype, buffer=file.bytes, offset=begin)
