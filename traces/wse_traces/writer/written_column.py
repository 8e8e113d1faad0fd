"""Datasets to which a writer appends rows, with the type and shape that a row must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from wse_traces import schema
from wse_traces.field import Field
from wse_traces.header import RunHeader

Array = NDArray[Any]
BufferedRows = dict[str, Array] | list[list[Any]]
"""Buffered rows: columns by name, or single rows with values in column order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumn:
    """A column of a trace to which rows are appended: the type, shape and range of its values.

    Attributes:
        path: Path of the dataset in the file.
        name: Name of the column in its table.
        dtype: Type of the elements.
        shape: Shape of a row.
        planes: Whether each row has a value for every PE. Such a row may be written for only a part
            of the mesh; the rest is read as 0.
        chunk_rows: Number of rows per chunk.
        min_value: Smallest integer that the type can represent; 0 for other types.
        max_value: Largest integer that the type can represent; 0 for other types.
    """

    path: str
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    planes: bool
    chunk_rows: int
    min_value: int
    max_value: int

    @classmethod
    def of(cls, field: Field, header: RunHeader) -> Self:
        """Return the column that a field of the schema describes, given the file's header."""
        dtype = np.dtype(field.dtype)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        return cls(
            path=field.path,
            name=field.name,
            dtype=dtype,
            shape=schema.shape_of(field, header),
            planes="row" in field.axes,
            chunk_rows=schema.chunk_of(field, header)[0],
            min_value=int(limits.min) if limits else 0,
            max_value=int(limits.max) if limits else 0,
        )

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    def check(self, value: Any) -> Any:
        """Check that the type of the column can represent a value, and return the value.

        Only single integers are checked.

        Raises:
            ValueError: The integer is out of range.
        """
        if self.max_value and not self.shape and not self.min_value <= value <= self.max_value:
            raise ValueError(f"{self.path}: values that {self.dtype} cannot hold")
        return value

    def cast(self, values: ArrayLike) -> Array:
        """Convert rows to the type and shape of the column.

        Raises:
            ValueError: A value cannot be represented, a string is too long, or the shape is wrong.
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
            raise ValueError(f"{self.path}: values that {array.dtype} cannot hold")
        return array

    def _texts(self, values: ArrayLike) -> Array:
        """Encode strings as UTF-8, as an array of byte strings with the fixed length of the column.

        Raises:
            ValueError: A string needs more bytes than the column has.
        """
        if isinstance(values, np.ndarray) and values.dtype == self.dtype:
            return values
        encoded = [str(v).encode() for v in np.asarray(values, dtype=object)]
        max_bytes = max(map(len, encoded), default=0)
        if max_bytes > self.dtype.itemsize:
            raise ValueError(f"{self.path}: a text of {max_bytes} B, at most {self.dtype.itemsize} B fit")
        return np.array(encoded, self.dtype)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Check that rows have the shape of the column. Axes of PEs may be shorter than in the column.

        Raises:
            ValueError: The array has a different shape.
        """
        # All axes must be complete, except for the last two of rows that cover the mesh.
        fixed = len(self.shape) - 2 if self.planes else len(self.shape)
        fits = len(shape) == 1 + len(self.shape) and shape[1 : 1 + fixed] == self.shape[:fixed]
        if not fits or any(size > limit for size, limit in zip(shape[1 + fixed :], self.shape[fixed:], strict=True)):
            raise ValueError(f"{self.path}: rows of shape {shape[1:]}, needed: {self.shape}")


class WrittenDataset:
    """The dataset of a column in a growing file.

    HDF5's low-level interface is used for speed, because a trace has a hundred datasets.
    """

    def __init__(self, file: Any, column: WrittenColumn) -> None:
        self._id = h5py.h5d.open(file.id, column.path.encode())
        self._type, self._shape = self._id.get_type(), column.shape  # the type knows that texts are UTF-8

    def append(self, arrays: Sequence[Array], end: int) -> None:
        """Append rows to the dataset, which then has ``end`` rows.

        Args:
            arrays: Rows to append. Rows of per-PE values may cover only a part of the mesh.
            end: Number of rows after the call.
        """
        self._id.set_extent((end, *self._shape))
        row = end - sum(map(len, arrays))
        for array in arrays:
            space = self._id.get_space()
            space.select_hyperslab((row,) + (0,) * len(self._shape), array.shape)
            self._id.write(h5py.h5s.create_simple(array.shape), space, np.ascontiguousarray(array), self._type)
            row += len(array)


def join_parts(columns: Sequence[WrittenColumn], parts: Sequence[BufferedRows]) -> dict[str, list[Array]]:
    """Combine the buffered rows of a table into arrays.

    Args:
        columns: Columns of the table.
        parts: Buffered rows.

    Returns:
        A list of arrays for each column, keyed by the column's name. The list has a single array
        with all rows, or one array per row if the column has values for every PE.
    """
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
