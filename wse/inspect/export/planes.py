"""Planes, in which a row would be a whole wafer, as tables with a row a PE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.inspect.export.tables import ROWS_AT_ONCE, FlatColumn, FlatTable
from wse_traces.read import Array, Trace
from wse_traces.schema import AXIS_LABELS, BY_PATH, Field

PATHS: Final = ("sram/bytes_per_pe", "links/words", "links/patterns/words", "pe/busy_cycles")
_PLACE: Final = {"row": "row of the PE", "col": "column of the PE"}


def plane_tables(trace: Trace) -> Iterator[FlatTable]:
    """A table for each plane, named by its path, with a row for each PE of a wafer or pattern."""
    for path in PATHS:
        yield _table(trace, BY_PATH[path])


def plane_name(path: str) -> str:
    """The table of a plane.

    >>> plane_name("links/words")
    'links_words'
    """
    return path.replace("/", "_")


def _table(trace: Trace, field: Field) -> FlatTable:
    first, *between, _row, _col = field.axes
    labels = AXIS_LABELS[between[0]] if between else ()
    docs = {first: f"{first} that the PE is in, counted from 0", **_PLACE}
    columns = [FlatColumn(name, field.path, "i4", "index", doc) for name, doc in docs.items()]
    dtype = field.dtype.lstrip("<")
    for label in labels or (field.name,):
        name = f"{label}_{field.name}" if labels else label
        columns.append(FlatColumn(name, field.path, dtype, field.unit, field.doc))
    count, header = trace.rows(field.table), trace.header

    def pieces() -> Iterator[list[Array | list[str]]]:
        for index in range(count):
            plane = trace.column(field.path, index, index + 1)[0]
            rows, cols = np.indices(plane.shape[-2:], "i4").reshape(2, -1)
            layers = plane.reshape(-1, plane.shape[-2] * plane.shape[-1])
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                yield [np.full(len(rows[part]), index, "i4"), rows[part], cols[part], *layers[:, part]]

    return FlatTable(plane_name(field.path), tuple(columns), count * header.rows * header.cols, pieces)
