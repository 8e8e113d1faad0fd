"""Reader that checks CSV files and converts them into numeric or text columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.files import read_file, short_repr
from wse.reports.number_text import plural

LIMIT_BYTES: Final = 2**27
MAX_ROWS: Final = 50_000
MAX_COLUMNS: Final = 2_000
MAX_CELLS: Final = 4_000_000
LONGEST_CELL: Final = 2_000
LONGEST_NAME: Final = 200
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table. A column is numeric if all its nonempty cells contain numbers.

    Attributes:
        name: Heading of the column.
        numbers: The numbers in the cells of a numeric column, with None for empty cells. None if
            the column is not numeric.
        words: The strings in the cells, with None for empty cells.
    """

    name: str
    numbers: tuple[float | None, ...] | None
    words: tuple[str | None, ...]

    @property
    def distinct(self) -> list[str]:
        """Distinct strings in the column, in order of first occurrence."""
        return list(dict.fromkeys(word for word in self.words if word is not None))


def read_csv(path: Path) -> tuple[TableColumn, ...]:
    """Return the columns of a UTF-8 CSV file whose first line contains the column names.

    Raises:
        BadInput: The file cannot be read, is not a valid table, or is larger than a page can show.
            If the error is in a certain line, the message states its number.
    """
    text = _decoded(path)
    lines = _lines(path, text)
    names = _checked_names(path, next(lines, (1, []))[1])
    rows: list[list[str]] = []
    for number, cells in lines:
        if not cells:
            continue
        if len(cells) != len(names):
            cells_text = plural(len(cells), "cell")
            raise BadInput(
                f"{path}: line {number} has {cells_text}, the first line names {len(names)}; correct or remove it"
            )
        if any(len(cell) > LONGEST_CELL for cell in cells):
            raise BadInput(f"{path}: line {number} has a cell of over {LONGEST_CELL:,} characters; shorten it")
        rows.append(cells)
        if len(rows) > MAX_ROWS or len(rows) * len(names) > MAX_CELLS:
            max_rows = min(MAX_ROWS, MAX_CELLS // len(names))
            raise BadInput(
                f"{path}: has over {max_rows:,} rows of {len(names)} columns, the maximum of a page; give a part of it"
            )
    if not rows:
        raise BadInput(f"{path}: has no rows after its line of names; give a table of wse sweep or wse compare --csv")
    return tuple(_column(name, [row[at].strip() for row in rows]) for at, name in enumerate(names))


def _decoded(path: Path) -> str:
    data = read_file(path, LIMIT_BYTES, BadInput, "a CSV file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        remedy = "give a table of wse sweep or wse compare --csv" if b"\0" in data else "save the table as UTF-8"
        raise BadInput(f"{path}: line {line} is not UTF-8; {remedy}") from error


def _lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and cells of each record in a CSV file.

    Quoted cells may contain line breaks, so a record can span several lines. The line number refers
    to the first of these lines.

    Raises:
        BadInput: The string is not valid CSV.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise BadInput(f"{path}: line {first}: {error}; correct it, or write the table again") from error
        if cells is None:
            return
        yield first, cells


def _checked_names(path: Path, names: Sequence[str]) -> list[str]:
    names = [name.strip() for name in names]
    if not 2 <= len(names) <= MAX_COLUMNS:
        raise BadInput(f"{path}: line 1 names {len(names)} columns; give a table with 2 to {MAX_COLUMNS:,}")
    earlier_names: set[str] = set()
    for name in names:
        if not name or len(name) > LONGEST_NAME or name in earlier_names:
            fault = "is there twice" if name in earlier_names else "is empty" if not name else "is too long"
            raise BadInput(f"{path}: line 1: the name {short_repr(name)} of a column {fault}; give each its own name")
        earlier_names.add(name)
    return names


def _column(name: str, cells: Sequence[str]) -> TableColumn:
    words = tuple(cell or None for cell in cells)
    numbers = [None if word is None else _number(word) for word in words]
    is_numeric = any(number is not None for number in numbers) and all(
        number is not None or word is None for number, word in zip(numbers, words, strict=True)
    )
    return TableColumn(name=name, numbers=tuple(numbers) if is_numeric else None, words=words)


def _number(text: str) -> float | None:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None
