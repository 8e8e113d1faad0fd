"""Arrays as the page holds them: differences along the first axis, deflated, in base64; equal ones once.

Of a plane most of whose rows are as the row before, as those of a wafer are, only the others are held, and ``starts``
says which they are: so that the page need not inflate what it can copy.

The page undoes it with the browser's own DecompressionStream (RFC 1950) and one addition an element.
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
from wse_traces.read import Columns, Trace
from wse_traces.schema import TABLES

Array = npt.NDArray[Any]
Pack = Callable[[Array], object | None]
"""Makes of an array what the page holds of it; None where it has no room."""

ROOM_BYTES: Final = 7_400_000
"""Room for all packed arrays of a page, in base64; with the rest of it the page stays below 8 MB."""
TYPES: Final = ("u1", "u2", "u4")
WIDE: Final = "f8"
FEW: Final = 2
"""Rows of a plane to each that differs from the one before, at least, for them to be few."""


class Packer:
    """A packer of arrays with a limit on their total size."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self.blobs: list[str] = []
        self.room_bytes = room_bytes
        self._known: dict[bytes, dict[str, Any]] = {}

    def __call__(self, values: Array) -> dict[str, Any] | None:
        """Pack an array of whole numbers; return its place, type, shape, minimum and maximum, or None without room."""
        least, most = int(values.min(initial=0)), int(values.max(initial=0))
        dtype = _narrowest(least, most)
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
            array = {"type": dtype, "shape": list(plain.shape), "most": most, "least": least}
            runs = {} if starts is None else {"starts": starts.tolist()}
            self._known[key] = {"blob": len(self.blobs) - 1, **array, **runs}
        return self._known[key]


def _starts_of_runs(values: Array) -> npt.NDArray[np.int64] | None:
    """Return the rows that differ from the row before, if they are few; None otherwise."""
    if values.ndim != 2 or len(values) < FEW:
        return None
    starts = np.concatenate([[0], 1 + np.flatnonzero((values[1:] != values[:-1]).any(axis=1))])
    return starts if len(starts) * FEW <= len(values) else None


def _narrowest(least: int, most: int) -> str:
    """Return the narrowest type for whole numbers from ``least`` to ``most``; float64 rounds those above 2**53."""
    if least < 0:
        return "i4" if least >= -(2**31) and most < 2**31 else WIDE
    return next((dtype for dtype in TYPES if most <= np.iinfo(dtype).max), WIDE)


def check_index(path: Path, where: str, index: Array, rows: int) -> None:
    """Check that each entry of an index from a file, int ``[n]``, is -1 or one of ``rows`` rows.

    Raises:
        BadTrace: one is not.
    """
    if len(index) and not -1 <= index.min() <= index.max() < rows:
        worst = int(index.max() if index.max() >= rows else index.min())
        message = f"{path}: {where}: refers to row {worst} of {rows}; the file is damaged, make the trace again"
        raise BadTrace(message)


def checked_table(trace: Trace, table: str, most_rows: int | None = None) -> Columns:
    """Read the first rows of a table, or all, and check their indices and codes.

    Raises:
        BadTrace: an index or a code points nowhere.
    """
    columns = trace.table(table, 0, most_rows)
    for field in TABLES[table]:
        if field.refers:
            rows = trace.header.wafers if field.refers == "wafer" else trace.rows(field.refers)
            check_index(trace.path, field.path, columns[field.name], rows)
        elif field.labels:
            check_index(trace.path, field.path, columns[field.name].astype(int), len(field.labels))
    return columns


def packed_columns(columns: dict[str, Array], pack: Pack) -> dict[str, object] | None:
    """Return each column packed; None where one had no room."""
    packed = {name: pack(np.asarray(column)) for name, column in columns.items()}
    return None if any(column is None for column in packed.values()) else packed
