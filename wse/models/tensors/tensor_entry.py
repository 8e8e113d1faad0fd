"""TensorEntry: one tensor of a memory-mapped file, decoded when it is requested.

The operating system loads the mapped bytes page by page. A file is never read in full.
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
    """A regular file that is memory-mapped for reading.

    Attributes:
        path: Path of the file.
        bytes: Content, uint8 [size]. Views of this array keep the mapping alive.
    """

    def __init__(self, path: Path) -> None:
        """Map a file into memory.

        Raises:
            BadModel: The file is missing, not a regular file, empty, or unreadable.
        """
        try:
            if not path.is_file():
                raise BadModel(f"{path}: does not exist or is not a regular file; fetch it, or correct the name")
            if path.stat().st_size == 0:
                raise BadModel(f"{path}: is empty; fetch the file again")
            with path.open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise BadModel(f"{path}: cannot be read ({error}); check the path and its permissions") from error
        self.path = path
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)

    def release_pages(self) -> None:
        """Release the memory of all pages read so far. Later reads load them again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


Array = NDArray[Any]
Index = tuple[int | slice, ...]
RowSelection = slice | NDArray[np.intp]
"""A range of rows, or the indices of rows, along the first axis of a tensor."""
Rows = Callable[[RowSelection], Array]
"""Function that returns the selected rows of a tensor. The first axis is kept."""

FLOATS: dict[str, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Names of plain element types in files, mapped to the element types of the resulting arrays."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorEntry:
    """A checkpoint tensor, under the name that its model family uses.

    Attributes:
        name: Name of the tensor.
        kind: Storage format: the file format's own name (F32, BF16, Q4_K and so on), or FP8 or
            MXFP4 for a packed tensor (codes that are multiplied by scales).
        shape: Shape of the decoded array.
        stored_bytes: Number of bytes that the tensor occupies in the file, including scales.
        file: File that contains the tensor.
        rows: Function that reads or decodes selected rows. Plain formats return views of the file
            in the file's element type; other formats return new float32 arrays.
        codes: Quantised values of a packed tensor, uint8 with the shape of the decoded array, one
            value per byte. None if the tensor is not packed.
        scales: Scales by which the codes are multiplied, as stored in the file. Neighbouring inputs
            share a scale, so the axis of inputs is shorter than in ``codes``. None if the tensor is
            not packed.
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
        """Path of the file that contains the tensor."""
        return self.file.path

    def array(self, index: Index = ()) -> Array:
        """Return the part ``tensor[index]`` of the decoded tensor as an array.

        Only the rows that the index selects are read and decoded.
        """
        if not index:
            return self.rows(slice(None))
        first, inner_index = index[0], index[1:]
        if isinstance(first, int):
            return self.rows(slice(first, first + 1))[(0, *inner_index)]
        return self.rows(first)[(slice(None), *inner_index)]


def plain_entry(name: str, kind: str, array: Array, file: MappedFile) -> TensorEntry:
    """Return a tensor whose values are a view of the file. The view is made read-only.

    Args:
        name: Name of the tensor.
        kind: Storage format, a key of `FLOATS` or another plain type.
        array: View of the file.
        file: File that contains the tensor.
    """
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
    """Return a view of a file's bytes as an array.

    The caller must have checked that the range is inside the file.

    Args:
        file: The file.
        begin: Offset of the first byte.
        shape: Shape of the array.
        dtype: Element type of the array.
    """
    return np.ndarray(shape, dtype, buffer=file.bytes, offset=begin)
