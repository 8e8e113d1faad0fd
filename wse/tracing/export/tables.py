"""The tables of a trace in a flat form, for export: one value per cell, and codes as names.

A column with a second axis, such as cycles by cause, becomes one column for each position on the
axis. A dataset with one value per PE, such as the words on links, is a *plane*. Its table has a row
for each PE. Datasets of bytes are not exported as tables: tokens have a column ``text``, and the
report is among the facts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from wse.errors import BadInput, BadTrace, UnknownName
from wse.reports.result import Report
from wse_traces.field import TEXT, Field, texts_of
from wse_traces.reader.read import Array, Trace
from wse_traces.reader.trace_file import names_at
from wse_traces.schema import AXIS_LABELS, BY_PATH, NAMES, TABLES, flat_names

ROWS_AT_ONCE: Final = 16_384
_BYTES: Final = ("summary_byte", "text_byte", "tensor_byte")
PLANES: Final = {
    path: path.replace("/", "_")
    for path in ("sram/bytes_per_pe", "links/words", "links/patterns/words", "pe/busy_cycles")
}
"""Exported tables of planes, by path of the dataset. They are written on request only."""
_PLACE: Final = {"row": "row of the PE", "col": "column of the PE"}


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """Table to export as a file, with one value per cell.

    Attributes:
        name: Name of the table.
        columns: Fields of the trace schema from which the column values are taken, keyed by column
            name.
        rows: Number of rows.
        batches: Function that yields the values in order, in batches of at most ``ROWS_AT_ONCE``
            rows. Each batch is a list with one item per column.
    """

    name: str
    columns: dict[str, Field]
    rows: int
    batches: Callable[[], Iterator[list[Array | list[str]]]]


def check_tables(names: tuple[str, ...]) -> None:
    """Raise UnknownName if one of the names is not an exportable table."""
    table_names = (*_plain_tables(), *PLANES.values())
    for name in names:
        if name not in table_names:
            raise UnknownName("table", name, table_names, place="--what")


def chosen_tables(trace: Trace, names: tuple[str, ...], *, planes: bool) -> list[FlatTable]:
    """Return the tables to export: the named tables, or all tables that have rows.

    Args:
        trace: Trace to export.
        names: Names of the tables; empty for all.
        planes: True to also return tables with a row for each PE, which are large, if ``names`` is
            empty.

    Raises:
        BadInput: A named table has no rows.
        BadTrace: No table has any rows.
    """
    tables = [_flat(trace, name) for name in _plain_tables()] + [_plane(trace, BY_PATH[path]) for path in PLANES]
    if not names:
        selection = [table for table in tables if table.rows and (planes or table.name not in PLANES.values())]
        if not selection:
            raise BadTrace(f"{trace.path}: nothing is recorded yet; let the run go on, or make the trace again")
        return selection
    selection = [table for table in tables if table.name in names]
    for table in selection:
        if not table.rows:
            raise BadInput(f"--what {table.name}: {trace.path} has no rows of this table; leave it out")
    return selection


def with_progress(tables: Sequence[FlatTable], on_progress: Callable[[int, int, str], None]) -> list[FlatTable]:
    """Return copies of tables that report progress while they are read.

    Args:
        tables: Tables to wrap.
        on_progress: Function called before each batch with the number of rows read so far, the
            total number of rows in all tables, and the name of the table.
    """
    total, rows_read = sum(table.rows for table in tables), 0

    def batches(table: FlatTable) -> Iterator[list[Array | list[str]]]:
        """Yield the batches of a table, and report progress before each batch."""
        nonlocal rows_read
        for batch in table.batches():
            on_progress(rows_read, total, table.name)
            yield batch
            rows_read += len(batch[0])

    return [replace(table, batches=partial(batches, table)) for table in tables]


def run_attributes(trace: Trace) -> Report:
    """Return the facts about a run: the attributes of its trace, and its report."""
    header = trace.header
    return {
        **{name: getattr(header, name) for name in header.__dataclass_fields__},
        "options": dict(header.options),
        "versions": dict(header.versions),
        "complete": trace.complete,
        **({"ending": trace.ending} if trace.ending else {}),
        "report": trace.report(),
    }


def _plain_tables() -> list[str]:
    """Return the names of the tables that contain neither bytes nor per-PE values."""
    return [name for name in TABLES if name not in _BYTES and not TABLES[name][0].is_plane]


def _flat(trace: Trace, name: str) -> FlatTable:
    """Return a table of the trace for export, with one value per cell.

    A column that refers to ops or names by row number is followed by a column with the names.
    """
    fields = [field for field in TABLES[name] if not field.is_plane]
    columns: dict[str, Field] = {}
    for field in fields:
        columns |= dict.fromkeys(flat_names(field), field)
        if field.refers in NAMES:
            doc = f"`{field.name}` in words, empty: none"
            columns[f"{field.name}_text"] = Field(NAMES[field.refers], TEXT, field.axes, "text", doc)
    if name == "token":
        doc = "what it says; a part of a character is U+FFFD"
        columns["text"] = Field("tokens/text", TEXT, ("token",), "text", doc)
    rows = trace.rows(name)

    def batches() -> Iterator[list[Array | list[str]]]:
        """Yield the values of the table, at most ``ROWS_AT_ONCE`` rows at a time."""
        words = {of: trace.texts(path) for of, path in NAMES.items() if any(f.refers == of for f in fields)}
        token_texts = trace.token_texts() if name == "token" else []
        for start in range(0, rows, ROWS_AT_ONCE):
            batch: list[Array | list[str]] = []
            for field in fields:
                values = trace.column(field.path, start, start + ROWS_AT_ONCE)
                batch += _values_of(field, values)
                if field.refers in words:
                    batch.append(names_at(values, words[field.refers]))
            yield [*batch, token_texts[start : start + ROWS_AT_ONCE]] if name == "token" else batch

    return FlatTable(name, columns, rows, batches)


def _values_of(field: Field, values: Array) -> list[Array | list[str]]:
    """Return the values of a field as one array or list for each exported column."""
    if field.dtype.startswith("S"):
        return [texts_of(values)]
    if field.labels:
        # A code without a name becomes its number.
        return [[field.labels[code] if code < len(field.labels) else str(code) for code in values.tolist()]]
    return [values] if values.ndim == 1 else list(values.reshape(len(values), -1).T)


def _plane(trace: Trace, field: Field) -> FlatTable:
    """Convert a field with one value per PE to a table that has a row for each PE.

    If the field has a value per PE of each wafer, the rows are the PEs of all wafers. The words
    that layers send over links are recorded in maps (patterns), each for a rectangle of PEs. For
    them, the rows are the PEs of all maps.
    """
    first, *middle_axes, _row, _col = field.axes
    labels = AXIS_LABELS[middle_axes[0]] if middle_axes else ()
    docs = {first: f"{first} that the PE is in, counted from 0", **_PLACE}
    columns = {name: Field(field.path, "<i4", (first,), "index", doc) for name, doc in docs.items()}
    for label in labels or (field.name,):
        columns[f"{label}_{field.name}" if labels else label] = field
    count, header = trace.rows(field.table), trace.header

    def batches() -> Iterator[list[Array | list[str]]]:
        """Yield the values in row-major order, at most ``ROWS_AT_ONCE`` PEs at a time."""
        for index in range(count):
            plane = trace.column(field.path, index, index + 1)[0]
            rows, cols = np.indices(plane.shape[-2:], "i4").reshape(2, -1)
            layers = plane.reshape(-1, plane.shape[-2] * plane.shape[-1])
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                yield [np.full(len(rows[part]), index, "i4"), rows[part], cols[part], *layers[:, part]]

    return FlatTable(PLANES[field.path], columns, count * header.rows * header.cols, batches)
