"""A trace's tables in flat columns: one value a row and column, codes as their names, piece by piece.

A column with an axis of its own, such as cycles by cause, becomes a column for each place on it. Planes, in which a row
would be a whole wafer, become a row a PE. Bytes that other columns cut into texts are left to those: tokens have a
column ``text``; the report is in the facts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from wse.report.as_json import Report
from wse_traces.read import Array, Trace
from wse_traces.schema import AXIS_LABELS, FIXED_AXES, TABLES, Field

ROWS_AT_ONCE: Final = 16_384
_BYTES: Final = ("summary_byte", "text_byte", "tensor_byte")
_IN_WORDS: Final = {"op": "graph/ops/name", "name": "strings/names"}


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One column: where it comes from, and what a reader has to know of it."""

    name: str
    path: str
    dtype: str
    unit: str
    doc: str
    labels: tuple[str, ...] = ()
    refers: str = ""

    @property
    def is_text(self) -> bool:
        """Whether its values are texts: as such, or as the names of codes."""
        return self.dtype.startswith("S") or bool(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """One table. ``pieces`` gives its columns' values, at most some 16,000 rows at once, texts as lists of str."""

    name: str
    columns: tuple[FlatColumn, ...]
    rows: int
    pieces: Callable[[], Iterator[list[Array | list[str]]]]

    @property
    def values(self) -> int:
        """How many values it has."""
        return self.rows * len(self.columns)


def plain_tables() -> list[str]:
    """The tables that are written as they are."""
    return [name for name in TABLES if name not in _BYTES and not _is_plane(TABLES[name][0])]


def flat_tables(trace: Trace) -> Iterator[FlatTable]:
    """All tables but planes."""
    for name in plain_tables():
        yield _flat(trace, name)


def run_facts(trace: Trace) -> Report:
    """What the attributes of a trace say, and the report that the run ended with."""
    header = trace.header
    return {
        **{name: getattr(header, name) for name in header.__dataclass_fields__},
        "options": dict(header.options),
        "versions": dict(header.versions),
        "complete": trace.complete,
        "report": trace.report(),
    }


def labelled(values: Array, labels: tuple[str, ...]) -> list[str]:
    """Codes as their names; a code without one as its number."""
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
        said = trace.token_texts() if name == "token" else []
        for start in range(0, rows, ROWS_AT_ONCE):
            found: list[Array | list[str]] = []
            for field in fields:
                values = trace.column(field.path, start, start + ROWS_AT_ONCE)
                found += _values_of(field, values)
                if field.refers in words:
                    known = words[field.refers]
                    found.append([known[i] if 0 <= i < len(known) else "" for i in values.tolist()])
            yield [*found, said[start : start + ROWS_AT_ONCE]] if name == "token" else found

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
        return [labelled(values, field.labels)]
    return [values] if values.ndim == 1 else list(values.reshape(len(values), -1).T)
