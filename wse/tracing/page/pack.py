"""Compact form of arrays on the page: deflated differences in base64, identical arrays only once.

An array is stored as the differences along its first axis. If most rows of a plane equal the row
before, as on most wafers, only the other rows are stored. ``starts`` then lists their indices, and
the page copies the rest instead of inflating it.

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
"""Function that converts an array to its form on the page, or returns None without room for it."""

ROOM_BYTES: Final = 7_400_000
"""Maximum size of all packed arrays of a page, in base64. It keeps the whole page below 8 MB."""
TYPES: Final = ("u1", "u2", "u4")
WIDE: Final = "f8"
FEW: Final = 2
"""Minimum ratio of all rows to distinct rows from which on only the distinct rows are stored."""


class Packer:
    """Packer of arrays for an HTML page, with a limit on their total size.

    Identical arrays are packed only once.

    Attributes:
        blobs: Packed arrays in base64.
        room_bytes: Number of characters left for more arrays.
    """

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self.blobs: list[str] = []
        self.room_bytes = room_bytes
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
            if dtype != WIDE and len(rows) > 1:
                rows = np.concatenate([rows[:1], rows[1:] - rows[:-1]])
            blob = base64.b64encode(zlib.compress(rows.tobytes(), 6)).decode()
            if len(blob) > self.room_bytes:
                return None
            self.room_bytes -= len(blob)
            self.blobs.append(blob)
            array = {"type": dtype, "shape": list(plain.shape), "most": maximum, "least": minimum}
            runs = {} if starts is None else {"starts": starts.tolist()}
            self._known[key] = {"blob": len(self.blobs) - 1, **array, **runs}
        return self._known[key]


def _starts_of_runs(values: Array) -> npt.NDArray[np.int64] | None:
    """Return the indices of the rows that differ from the row before them.

    The array can then be stored as these rows only. The result is None if this would save little.
    """
    if values.ndim != 2 or len(values) < FEW:
        return None
    starts = np.concatenate([[0], 1 + np.flatnonzero((values[1:] != values[:-1]).any(axis=1))])
    return starts if len(starts) * FEW <= len(values) else None


def _narrowest(minimum: int, maximum: int) -> str:
    """Return the narrowest array type for integers from ``minimum`` to ``maximum``.

    The widest type is float64, which rounds numbers above 2**53.
    """
    if minimum < 0:
        return "i4" if minimum >= -(2**31) and maximum < 2**31 else WIDE
    return next((dtype for dtype in TYPES if maximum <= np.iinfo(dtype).max), WIDE)


def check_index(path: Path, column_name: str, index: Array, rows: int) -> None:
    """Check that each entry of an index column is -1 or an existing row.

    Args:
        path: Path of the trace, for the error message.
        column_name: Name of the column, for the error message.
        index: int ``[n]``.
        rows: Number of rows in the table that the entries refer to.

    Raises:
        BadTrace: An entry is out of range.
    """
    if len(index) and not -1 <= index.min() <= index.max() < rows:
        bad_row = int(index.max() if index.max() >= rows else index.min())
        raise BadTrace(
            f"{path}: {column_name}: refers to row {bad_row} of {rows}; the file is damaged, make the trace again"
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
