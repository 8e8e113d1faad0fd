"""Datasets to which a writer appends rows, with the type and shape that a row must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from wse_traces import schema
from wse_traces.field import Field
from wse_traces.header import RunHeader

Array = NDArray[Any]


class WrittenColumn:
    """A column of a trace to which rows are appended: the type, shape and range of its values.

    Attributes:
        path: Path of the dataset in the file.
        name: Name of the column in its table.
        dtype: Type of the elements.
        shape: Shape of a row.
        row_bytes: Size of a row in bytes.
        planes: Whether each row has a value for every PE. Such a row may be written for only a part
            of the mesh; the rest is read as 0.
        chunk_rows: Number of rows per chunk.
    """

    def __init__(self, field: Field, header: RunHeader) -> None:
        """Describe the column of a field of the schema, given the file's header."""
        self.path, self.name, self.dtype = field.path, field.name, np.dtype(field.dtype)
        self.shape, self.planes = schema.shape_of(field, header), field.is_plane
        self.row_bytes = self.dtype.itemsize * math.prod(self.shape)
        self.chunk_rows = schema.chunk_of(field, header)[0]
        self._dataset: Any = None

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

    def append(self, file: Any, arrays: Sequence[Array], end: int) -> None:
        """Append rows to the dataset of the column, which then has ``end`` rows.

        HDF5's low-level interface is used for speed, because a trace has a hundred datasets.

        Args:
            file: The open file.
            arrays: Rows to append. Rows of per-PE values may cover only a part of the mesh.
            end: Number of rows after the call.
        """
        if self._dataset is None:
            self._dataset = h5py.h5d.open(file.id, self.path.encode())
        self._dataset.set_extent((end, *self.shape))
        stored_type = self._dataset.get_type()  # states that texts are UTF-8
        row = end - sum(map(len, arrays))
        for array in arrays:
            space = self._dataset.get_space()
            space.select_hyperslab((row,) + (0,) * len(self.shape), array.shape)
            self._dataset.write(h5py.h5s.create_simple(array.shape), space, np.ascontiguousarray(array), stored_type)
            row += len(array)


def join_parts(columns: Sequence[WrittenColumn], parts: Sequence[dict[str, Array]]) -> dict[str, list[Array]]:
    """Combine the buffered rows of a table into arrays.

    Args:
        columns: Columns of the table.
        parts: Parts of the table, oldest first. Each has an array for every column, keyed by name.

    Returns:
        A list of arrays for each column, keyed by the column's name. The list has a single array
        with all rows, or one array per row if the column has values for every PE.
    """
    arrays_by_column = {}
    for column in columns:
        arrays = [part[column.name] for part in parts]
        if column.planes:
            arrays_by_column[column.name] = [plane[np.newaxis] for array in arrays for plane in array]
        else:
            arrays_by_column[column.name] = arrays if len(arrays) == 1 else [np.concatenate(arrays)]
    return arrays_by_column
