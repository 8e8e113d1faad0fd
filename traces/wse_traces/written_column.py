"""Datasets as a writer sees them: the type and shape that their rows must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from wse_traces import schema
from wse_traces.header import RunHeader
from wse_traces.schema import Field

Array = NDArray[Any]
Part = dict[str, Array] | list[list[Any]]
"""Rows that wait: columns by name, or single rows in the order of the table's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumn:
    """A dataset to which rows are appended.

    Attributes:
        path, name: In the file, and within its table.
        dtype: Of its elements.
        shape: Of a row.
        planes: Whether a row covers the mesh; then less of it may be given.
        chunk_rows: Rows of a chunk.
        least, most: What a whole number of it may be.
    """

    path: str
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    planes: bool
    chunk_rows: int
    least: int
    most: int

    @classmethod
    def of(cls, field: Field, header: RunHeader) -> Self:
        """Return the column for a field of the schema, in a file with this header."""
        dtype = np.dtype(field.dtype)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        return cls(
            path=field.path,
            name=field.name,
            dtype=dtype,
            shape=schema.shape_of(field, header),
            planes="row" in field.axes,
            chunk_rows=schema.chunk_of(field, header)[0],
            least=int(limits.min) if limits else 0,
            most=int(limits.max) if limits else 0,
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape)

    def check(self, value: Any) -> Any:
        """Return a value as one row.

        Raises ValueError for a whole number outside of the type.
        """
        if self.most and not self.shape and not self.least <= value <= self.most:
            message = f"{self.path}: values that {self.dtype} cannot hold"
            raise ValueError(message)
        return value

    def cast(self, values: ArrayLike) -> Array:
        """Return the rows in the type and shape of the column.

        Raises ValueError if that would change them.
        """
        if self.dtype.kind == "S":
            return self._texts(values)
        array_given = np.asarray(values)
        if array_given.dtype == self.dtype and array_given.shape[1:] == self.shape and array_given.ndim:
            return array_given
        array = array_given.astype(self.dtype, copy=False)
        if array.shape[1:] != self.shape or not array.ndim:
            self._check_shape(array.shape)
        if array.dtype != array_given.dtype and array.dtype.kind in "iu" and not np.array_equal(array, array_given):
            message = f"{self.path}: values that {array.dtype} cannot hold"
            raise ValueError(message)
        return array

    def _texts(self, values: ArrayLike) -> Array:
        if isinstance(values, np.ndarray) and values.dtype == self.dtype:
            return values
        encoded = [str(v).encode() for v in np.asarray(values, dtype=object)]
        longest = max(map(len, encoded), default=0)
        if longest > self.dtype.itemsize:
            message = f"{self.path}: a text of {longest} B, at most {self.dtype.itemsize} B fit"
            raise ValueError(message)
        return np.array(encoded, self.dtype)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape other than that of rows or of a part of the mesh."""
        whole = len(self.shape) - 2 if self.planes else len(self.shape)  # axes of which nothing may be left out
        fits = len(shape) == 1 + len(self.shape) and shape[1 : 1 + whole] == self.shape[:whole]
        if not fits or any(size > most for size, most in zip(shape[1 + whole :], self.shape[whole:], strict=True)):
            message = f"{self.path}: rows of shape {shape[1:]}, needed: {self.shape}"
            raise ValueError(message)


class WrittenDataset:
    """The dataset of a column in a growing file, through HDF5's low-level interface for speed."""

    def __init__(self, file: Any, column: WrittenColumn) -> None:
        self._id = h5py.h5d.open(file.id, column.path.encode())
        self._type, self._shape = self._id.get_type(), column.shape  # the type knows that texts are UTF-8

    def append(self, pieces: Sequence[Array], end: int) -> None:
        """Grow to ``end`` rows, the last of which are ``pieces``; a row that covers the mesh may be given in part."""
        self._id.set_extent((end, *self._shape))
        row = end - sum(map(len, pieces))
        for piece in pieces:
            space = self._id.get_space()
            space.select_hyperslab((row,) + (0,) * len(self._shape), piece.shape)
            self._id.write(h5py.h5s.create_simple(piece.shape), space, np.ascontiguousarray(piece), self._type)
            row += len(piece)


def join_parts(columns: Sequence[WrittenColumn], parts: Sequence[Part]) -> dict[str, list[Array]]:
    """Join the parts of a table by column into one array; planes stay separate."""
    tables = [
        dict(zip([column.name for column in columns], zip(*part, strict=True), strict=True))
        if isinstance(part, list)
        else part
        for part in parts
    ]
    arrays_by_column = {}
    for column in columns:
        arrays = [column.cast(table[column.name]) for table in tables]
        if column.planes:
            arrays_by_column[column.name] = [plane for array in arrays for plane in array]
        else:
            arrays_by_column[column.name] = arrays if len(arrays) == 1 else [np.concatenate(arrays)]
    return arrays_by_column
