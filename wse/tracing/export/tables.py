"""A trace's tables in flat columns: one value a row and column, codes as their names, piece by piece.

A column with an axis of its own, such as cycles by cause, becomes a column for each place on it. Planes, in which a row
would be a whole wafer, become a row a PE. Bytes that other columns cut into texts are left to those: tokens have a
column ``text``; the report is in the facts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from wse.errors import BadInput, BadTrace, UnknownName
from wse.reports.as_json import Report
from wse_traces.read import Array, Trace
from wse_traces.schema import AXIS_LABELS, BY_PATH, FIXED_AXES, TABLES, Field

ROWS_AT_ONCE: Final = 16_384
_BYTES: Final = ("summary_byte", "text_byte", "tensor_byte")
_IN_WORDS: Final = {"op": "graph/ops/name", "name": "strings/names"}
PLANES: Final = {
    path: path.replace("/", "_")
    for path in ("sram/bytes_per_pe", "links/words", "links/patterns/words", "pe/busy_cycles")
}
"""The tables of planes by path, written only where they are requested."""
_PLACE: Final = {"row": "row of the PE", "col": "column of the PE"}


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of an exported table: its origin and its meaning."""

    name: str
    path: str
    dtype: str
    unit: str
    doc: str
    labels: tuple[str, ...] = ()
    refers: str = ""

    @property
    def is_text(self) -> bool:
        """True if its values are texts, or codes with names."""
        return self.dtype.startswith("S") or bool(self.labels)

    @property
    def attributes(self) -> dict[str, str]:
        """Unit, meaning, dataset and referenced table, as far as they exist."""
        texts = {"unit": self.unit, "doc": self.doc, "dataset": self.path, "refers": self.refers}
        return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """An exported table.

    ``pieces`` yields the values of its columns, at most about 16,000 rows at a time.
    """

    name: str
    columns: tuple[FlatColumn, ...]
    rows: int
    pieces: Callable[[], Iterator[list[Array | list[str]]]]


def check_tables(names: tuple[str, ...]) -> None:
    """Raise UnknownName for a name of no table."""
    table_names = (*_plain_tables(), *PLANES.values())
    for name in names:
        if name not in table_names:
            raise UnknownName("table", name, table_names, where="--what")


def chosen_tables(trace: Trace, names: tuple[str, ...], *, planes: bool) -> list[FlatTable]:
    """Return the named tables, or all with rows; tables of planes only with ``planes``.

    Raises:
        BadInput: nothing was recorded of a table that is named.
        BadTrace: nothing was recorded at all.
    """
    tables = [_flat(trace, name) for name in _plain_tables()] + [_plane(trace, BY_PATH[path]) for path in PLANES]
    if not names:
        chosen = [table for table in tables if table.rows and (planes or table.name not in PLANES.values())]
        if not chosen:
            message = f"{trace.path}: nothing is recorded yet; let the run go on, or make the trace again"
            raise BadTrace(message)
        return chosen
    chosen = [table for table in tables if table.name in names]
    for table in chosen:
        if not table.rows:
            message = f"--what {table.name}: {trace.path} has no rows of it; leave it out"
            raise BadInput(message)
    return chosen


def with_progress(tables: Sequence[FlatTable], on_progress: Callable[[int, int, str], None]) -> list[FlatTable]:
    """Yield the tables; ``on_progress`` is called with (rows so far, all rows, table) before each piece."""
    total, rows_read = sum(table.rows for table in tables), 0

    def pieces(table: FlatTable) -> Iterator[list[Array | list[str]]]:
        nonlocal rows_read
        for piece in table.pieces():
            on_progress(rows_read, total, table.name)
            yield piece
            rows_read += len(piece[0])

    return [replace(table, pieces=partial(pieces, table)) for table in tables]


def run_attributes(trace: Trace) -> Report:
    """Return the attributes of a trace, and the report of the run."""
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
    """Return the tables that are written unchanged."""
    return [name for name in TABLES if name not in _BYTES and not _is_plane(TABLES[name][0])]


def _labels(values: Array, labels: tuple[str, ...]) -> list[str]:
    """Return codes as their names; a code without a name as its number."""
    return [labels[code] if code < len(labels) else str(code) for code in values.tolist()]


def _is_plane(field: Field) -> bool:
    return "row" in field.axes


def _flat(trace: Trace, name: str) -> FlatTable:
    fields = [field for field in TABLES[name] if not _is_plane(field)]
    columns: list[FlatColumn] = []
    for field in fields:
        columns += _columns_of(field)
        if field.refers in _IN_WORDS:
            doc = f"`{field.name}` in words, empty: none"
            columns.append(FlatColumn(f"{field.name}_text", _IN_WORDS[field.refers], "S", "text", doc))
    if name == "token":
        columns.append(FlatColumn("text", "tokens/text", "S", "text", "what it says; a part of a character is U+FFFD"))
    rows = trace.rows(name)

    def pieces() -> Iterator[list[Array | list[str]]]:
        words = {of: trace.texts(path) for of, path in _IN_WORDS.items() if any(f.refers == of for f in fields)}
        token_texts = trace.token_texts() if name == "token" else []
        for start in range(0, rows, ROWS_AT_ONCE):
            piece: list[Array | list[str]] = []
            for field in fields:
                values = trace.column(field.path, start, start + ROWS_AT_ONCE)
                piece += _values_of(field, values)
                if field.refers in words:
                    names = words[field.refers]
                    piece.append([names[i] if 0 <= i < len(names) else "" for i in values.tolist()])
            yield [*piece, token_texts[start : start + ROWS_AT_ONCE]] if name == "token" else piece

    return FlatTable(name, tuple(columns), rows, pieces)


def _columns_of(field: Field) -> list[FlatColumn]:
    dtype = "S" if field.dtype.startswith("S") else field.dtype.lstrip("<")
    facts = (field.path, dtype, field.unit, field.doc, field.labels, field.refers)
    if len(field.axes) == 1:
        return [FlatColumn(field.name, *facts)]
    axis = field.axes[1]
    places = AXIS_LABELS.get(axis) or tuple(str(i) for i in range(FIXED_AXES[axis]))
    return [FlatColumn(f"{field.name}_{place}", *facts) for place in places]


def _values_of(field: Field, values: Array) -> list[Array | list[str]]:
    if field.dtype.startswith("S"):
        return [[bytes(text).decode(errors="replace") for text in values]]
    if field.labels:
        return [_labels(values, field.labels)]
    return [values] if values.ndim == 1 else list(values.reshape(len(values), -1).T)


def _plane(trace: Trace, field: Field) -> FlatTable:
    """Yield the table of a plane, with a row for each PE of a wafer or pattern."""
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

    return FlatTable(PLANES[field.path], tuple(columns), count * header.rows * header.cols, pieces)
