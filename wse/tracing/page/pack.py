"""Compact encoding of the arrays of an HTML page.

An integer array is stored as differences along its first axis, compressed with zlib, in base64.
Identical arrays are stored once. float64 arrays are stored without differences. If at most half of
the rows of a 2-D array differ from the row before, as on most wafers, only those rows are stored.
``starts`` then lists their indices, and the page copies each row to the indices that follow.

The page decodes arrays with the browser's DecompressionStream (RFC 1950) and one addition per
element.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.errors import BadTrace
from wse_traces.reader.read import Columns, Trace
from wse_traces.schema import TABLES

Array = npt.NDArray[Any]
Pack = Callable[[Array], object | None]
"""Function that encodes an array for the page, or returns None if there is no room left for it."""

MAX_PACKED_BYTES: Final = 7_400_000
"""Maximum size of all packed arrays of a page, in base64. It keeps the whole page below 8 MB."""
TYPES: Final = ("u1", "u2", "u4")
FLOAT64: Final = "f8"
MIN_ROW_RATIO: Final = 2
"""Minimum ratio of all rows to the rows to store at which only the rows that differ are stored."""


class Packer:
    """Packer of arrays for an HTML page, with a limit on their total size.

    Identical arrays are packed only once.

    Attributes:
        blobs: Packed arrays in base64.
        remaining_bytes: Number of characters left for more arrays.
    """

    def __init__(self, max_bytes: int = MAX_PACKED_BYTES) -> None:
        self.blobs: list[str] = []
        self.remaining_bytes = max_bytes
        self._known: dict[bytes, dict[str, Any]] = {}

    def __call__(self, values: Array) -> dict[str, Any] | None:
        """Pack an integer array.

        Args:
            values: Integer array.

        Returns:
            Index of the packed array in ``blobs``, and its element type, shape, minimum and
            maximum; None if there is no room for it.
        """
        minimum, maximum = int(values.min(initial=0)), int(values.max(initial=0))
        dtype = _narrowest(minimum, maximum)
        plain = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
        key = hashlib.sha256(f"{dtype}{plain.shape}".encode() + plain.tobytes()).digest()
        if key not in self._known:
            starts = _starts_of_runs(plain)
            rows = plain if starts is None else plain[starts]
            if dtype != FLOAT64 and len(rows) > 1:
                rows = np.concatenate([rows[:1], rows[1:] - rows[:-1]])
            blob = base64.b64encode(zlib.compress(rows.tobytes(), 6)).decode()
            if len(blob) > self.remaining_bytes:
                return None
            self.remaining_bytes -= len(blob)
            self.blobs.append(blob)
            array = {"type": dtype, "shape": list(plain.shape), "most": maximum, "least": minimum}
            runs = {} if starts is None else {"starts": starts.tolist()}
            self._known[key] = {"blob": len(self.blobs) - 1, **array, **runs}
        return self._known[key]


def _starts_of_runs(values: Array) -> npt.NDArray[np.int64] | None:
    """Return the indices of the rows that differ from the row before them.

    The array can then be stored as these rows only. The result is None if this would save little.
    """
    if values.ndim != 2 or len(values) < MIN_ROW_RATIO:
        return None
    starts = np.concatenate([[0], 1 + np.flatnonzero((values[1:] != values[:-1]).any(axis=1))])
    return starts if len(starts) * MIN_ROW_RATIO <= len(values) else None


def _narrowest(minimum: int, maximum: int) -> str:
    """Return the narrowest array type for integers from ``minimum`` to ``maximum``.

    The widest type is float64, which rounds numbers above 2**53.
    """
    if minimum < 0:
        return "i4" if minimum >= -(2**31) and maximum < 2**31 else FLOAT64
    return next((dtype for dtype in TYPES if maximum <= np.iinfo(dtype).max), FLOAT64)


def check_index(path: Path, column_name: str, index: Array, rows: int) -> None:
    """Check that each value of a column is -1, an index of an existing row, or an existing code.

    Args:
        path: Path of the trace, for the error message.
        column_name: Name of the column, for the error message.
        index: int ``[n]``.
        rows: Number of rows or codes that the values refer to.

    Raises:
        BadTrace: A value is out of range.
    """
    if len(index) and not -1 <= index.min() <= index.max() < rows:
        bad_index = int(index.max() if index.max() >= rows else index.min())
        raise BadTrace(
            f"{path}: {column_name}: {bad_index} is no index below {rows}; the file is damaged, make the trace again"
        )


def checked_table(trace: Trace, table: str, max_rows: int | None = None) -> Columns:
    """Read a table of the trace, and check that its indices and codes are valid.

    Args:
        trace: An open trace.
        table: Name of the table.
        max_rows: Maximum number of rows to read, starting with the first. None reads all rows.

    Raises:
        BadTrace: An index or a code is out of range.
    """
    columns = trace.table(table, 0, max_rows)
    for field in TABLES[table]:
        if field.refers:
            rows = trace.header.wafers if field.refers == "wafer" else trace.rows(field.refers)
            check_index(trace.path, field.path, columns[field.name], rows)
        elif field.labels:
            check_index(trace.path, field.path, columns[field.name].astype(int), len(field.labels))
    return columns


def packed_columns(columns: dict[str, Array], pack: Pack) -> dict[str, object] | None:
    """Pack the columns of a table for the page, or return None if one of them does not fit.

    The keys of the result are the column names.
    """
    packed_by_name = {name: pack(np.asarray(column)) for name, column in columns.items()}
    return None if any(column is None for column in packed_by_name.values()) else packed_by_name
