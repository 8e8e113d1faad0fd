"""Reader of CSV files with published measurements, which may also be a user's own.

Each row becomes a Measurement. A faulty cell is reported with its file, line, column and value. A
file has the columns of one of four tables, in any order:

- `waferllm`: kernels and layers of language models on a wafer
- `microbench`: collectives, links, PE cores
- `gpu`: serving speeds of GPUs
- `public`: serving speeds of services
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadMeasurements, UnknownName
from wse.files import read_file
from wse.studies.validate.measured.units import check_unit

FILE_LIMIT_BYTES: Final = 2**24
MAX_ROWS: Final = 100_000
LONGEST_CELL: Final = 10_000

_CONDITIONS: Final = "source_url date vendor_or_independent system chips model total_params_B active_params_B precision"
_SERVING: Final = f"{_CONDITIONS} spec_decode batch_or_concurrency context metric value note"
_WAFERLLM: Final = "source evidence system hardware workload phase grid_w grid_h seq_in seq_out M N K batch dtype"
_MICROBENCH: Final = "source figure_or_table kernel algorithm grid_w grid_h vector_len_bytes M,N,K dtype"

TABLES: Final[dict[str, tuple[str, ...]]] = {
    "waferllm": (*_WAFERLLM.split(), "metric", "value", "note"),
    "microbench": (*_MICROBENCH.split(), "metric", "value", "value_kind", "platform", "note"),
    "gpu": (*_SERVING.split(), "framework", "parallelism"),
    "public": tuple(_SERVING.split()),
}
"""The columns of each kind of table."""

LARGEST: Final[dict[str, int]] = {
    "grid_w": 4_096,
    "grid_h": 4_096,
    "vector_len_bytes": 2**30,
    "M": 10**7,
    "N": 10**7,
    "K": 10**7,
    "seq_in": 10**7,
    "seq_out": 10**7,
    "batch": 10**6,
}
"""Columns of whole numbers, and the maximum of each. A larger number is rejected as a mistake: no
wafer has 4,096 PEs in a row."""

ELEMENT_BYTES: Final = {
    **dict.fromkeys(("f32", "fp32", "float32", "32-bit"), 4),
    **dict.fromkeys(("f16", "fp16", "float16", "half", "bf16", "bfloat16", "16-bit"), 2),
}
"""Bytes per element, by the names of element types in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A published measurement: one row of a CSV file.

    Attributes:
        file: Name of the file, as the user gave it.
        line: Line on which the row begins, counted from 1.
        table: Type of table, a key of `TABLES`, which determines the columns of the file.
        input: Texts of the row. The key is the name of the column.
        measured: The published value. None if the row gives a range or a formula instead of one
            number.
        sizes: Sizes that the row states, such as rows of PEs or matrix sizes. The keys are those of
            `LARGEST`.
    """

    file: str
    line: int
    table: str
    input: Mapping[str, str]
    measured: float | None
    sizes: Mapping[str, int]

    def text(self, column: str) -> str:
        """Return the text of the row in a column, or "" if the table has no such column."""
        return self.input.get(column, "")

    @property
    def rows(self) -> int | None:
        """Rows of PEs, from the column ``grid_h``; None if not stated."""
        return self.sizes.get("grid_h")

    @property
    def cols(self) -> int | None:
        """Columns of PEs, from the column ``grid_w``; None if not stated."""
        return self.sizes.get("grid_w")

    @property
    def words(self) -> int | None:
        """Size of the vector on each PE in 32-bit words, rounded up; None if not stated."""
        bytes_ = self.sizes.get("vector_len_bytes")
        return None if bytes_ is None else -(-bytes_ // 4)

    @property
    def element_bytes(self) -> int | None:
        """Bytes per element; None if the element type is not stated or not known."""
        return ELEMENT_BYTES.get(self.text("dtype").strip().lower())

    @property
    def dtype(self) -> str | None:
        """Element type: ``float16`` (the default) or ``float32``; None for any other type."""
        if not self.text("dtype").strip():
            return "float16"
        return {2: "float16", 4: "float32"}.get(self.element_bytes or 0)

    @property
    def kernel(self) -> str:
        """What was measured: the kernel, else the model, else the system and its phase."""
        system = ", ".join(part for part in (self.text("system"), self.text("phase")) if part)
        return self.text("kernel") or self.text("model") or system

    @property
    def platform(self) -> str:
        """The machine, in the words of the source."""
        return self.text("platform") or self.text("hardware") or self.text("system")

    @property
    def source(self) -> str:
        """Publication that contains the value: a title or a web address."""
        return self.text("source") or self.text("source_url")

    @property
    def evidence(self) -> str:
        """Kind of evidence for the value, such as measured or simulated."""
        return self.text("value_kind") or self.text("evidence") or self.text("vendor_or_independent")


def read(path: Path, name: str = "") -> list[Measurement]:
    """Read all measurements of a CSV file.

    Args:
        path: The file.
        name: Name of the file in measurements and in error messages. By default this is the path.

    Raises:
        BadMeasurements: The file cannot be read, is too large, or has an invalid cell. The message
            states the line, the column and the value.
        UnknownName: The file has a column that is not in its table. The message suggests the
            nearest known column.
    """
    return list(parse(_text(path), name or str(path)))


def parse(text: str, file: str) -> Iterator[Measurement]:
    """Yield the measurements in the text of a CSV file. Empty lines are skipped.

    Args:
        text: Content of the file.
        file: Name of the file in measurements and in error messages.

    Raises:
        BadMeasurements: The text is empty or has an invalid cell. The message states the line, the
            column and the value.
        UnknownName: A column is not known. The message suggests the nearest known column.
    """
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    table, count = "", 0
    header: list[str] = []
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            msg = f"{file}: line {line}: not CSV ({error}); close the quote, or double a quote inside a quoted cell"
            raise BadMeasurements(msg) from error
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() for cell in cells]
            table = _table(header, f"{file}: line {line}")
            continue
        count += 1
        if count > MAX_ROWS:
            msg = f"{file}: line {line}: more than {MAX_ROWS:,} rows; split the file"
            raise BadMeasurements(msg)
        yield _measurement(file, line, table, header, cells)
    if not header:
        msg = f"{file}: is empty; the first line names the columns, such as {','.join(TABLES['microbench'][:4])},..."
        raise BadMeasurements(msg)


def _text(path: Path) -> str:
    data = read_file(path, FILE_LIMIT_BYTES, BadMeasurements, "a CSV file of measurements")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = f"{path}: line {line}: byte {error.start} is not UTF-8; save the file as UTF-8"
        raise BadMeasurements(msg) from error


def _table(header: list[str], place: str) -> str:
    """Return the type of table (a key of `TABLES`) to which the columns of a file belong.

    Args:
        header: Names of the columns in the file.
        place: File and line, for error messages.

    Raises:
        BadMeasurements: A column is missing or given twice, or the header fits none of the tables.
        UnknownName: A column is not in the table.
    """
    name = max(TABLES, key=lambda t: (len(set(TABLES[t]) & set(header)), -len(TABLES[t])))
    columns = TABLES[name]
    known_columns = set(columns) & set(header)
    if len(known_columns) < len(columns) // 2:
        msg = (
            f"{place}: its columns begin {', '.join(map(repr, header[:3]))}: not those of a file of measurements; "
            f"give one with columns {', '.join(TABLES['microbench'])}, or see docs/validation.md"
        )
        raise BadMeasurements(msg)
    for column in header:
        if column not in columns:
            raise UnknownName("column", column, columns, place=place)
        if header.count(column) > 1:
            msg = f"{place}: the column {column!r} is given {header.count(column)} times; remove all but one"
            raise BadMeasurements(msg)
    missing = [column for column in columns if column not in header]
    if missing:
        msg = f"{place}: has no column {missing[0]!r}; add it to every row, its cells may be empty"
        raise BadMeasurements(msg)
    return name


def _measurement(file: str, line: int, table: str, header: list[str], cells: list[str]) -> Measurement:
    """Check the cells of a row and return the measurement that it describes.

    Args:
        file: Name of the file.
        line: Line on which the row begins.
        table: Type of table, a key of `TABLES`.
        header: Names of the columns.
        cells: Texts of the row.

    Raises:
        BadMeasurements: A cell is invalid, or there are too few or too many cells.
    """
    place = f"{file}: line {line}"
    if len(cells) != len(header):
        msg = (
            f"{place}: has {len(cells)} cells, the first line {len(header)} columns; "
            "quote cells that hold commas, and give empty cells for what is not known"
        )
        raise BadMeasurements(msg)
    row = dict(zip(header, cells, strict=True))
    for column, cell in row.items():
        if len(cell) > LONGEST_CELL:
            msg = f"{place}: column {column} has {len(cell):,} characters; at most {LONGEST_CELL:,}: shorten it"
            raise BadMeasurements(msg)
    sizes = {}
    for column in (column for column in LARGEST if column in row):
        number = _size(row[column], column, f"{place}: column {column}")
        if number is not None:
            sizes[column] = number
    sizes |= _product_sizes(row.get("M,N,K", ""), place)
    check_unit(row["metric"], f"{place}: column metric")
    return Measurement(file=file, line=line, table=table, input=row, measured=_value(row["value"], place), sizes=sizes)


def _product_sizes(cell: str, place: str) -> dict[str, int]:
    """Return the matrix sizes M, N and K in a cell such as ``768,64,768``, keyed by letter.

    Some of the three sizes may be empty. A text with letters, such as ``4096 tokens``, has no
    sizes.

    Args:
        cell: Text of the cell.
        place: File and line, for error messages.

    Raises:
        BadMeasurements: The cell does not have three parts, or a size is invalid.
    """
    parts = [part.strip() for part in cell.split(",")]
    if len(parts) != 3:
        if not cell.strip() or any(c.isalpha() for c in cell):
            return {}
        msg = f"{place}: column M,N,K = {_quote(cell)}: not three sizes; give them as M,N,K, empty where not known"
        raise BadMeasurements(msg)
    sizes = {name: _size(part, name, f"{place}: column M,N,K") for name, part in zip("MNK", parts, strict=True)}
    return {name: number for name, number in sizes.items() if number is not None}


def _size(cell: str, column: str, place: str) -> int | None:
    """Return the whole number in a cell, or None if the cell is empty.

    Args:
        cell: Text of the cell.
        column: Name of the column or size, a key of `LARGEST`.
        place: File, line and column, for error messages.

    Raises:
        BadMeasurements: The number is not from 1 to the maximum in `LARGEST`.
    """
    if not cell.strip():
        return None
    number = _number(cell)
    max_size = LARGEST[column]
    if number is None or number != number or number in (math.inf, -math.inf) or number != int(number):
        msg = f"{place} = {_quote(cell)}: not a whole number; give one from 1 to {max_size:,}, or leave the cell empty"
        raise BadMeasurements(msg)
    if not 1 <= number <= max_size:
        msg = f"{place} = {_quote(cell)}: give a whole number from 1 to {max_size:,}, or leave the cell empty"
        raise BadMeasurements(msg)
    return int(number)


_SLIP: Final = re.compile(r"\s*([0-9][0-9_.,]*|0x\w*)\s*", re.IGNORECASE)
"""Numbers in a notation that is not accepted, such as ``1,5``, ``1_000`` and ``0x10``."""


def _value(cell: str, place: str) -> float | None:
    """Return the published number in a cell, or None if the cell contains a range or a formula.

    For example, ``10-20`` is a range, and ``2+2*ceil(n/8)`` is a formula.

    Raises:
        BadMeasurements: The cell contains no number, or one that is negative, infinite or in
            another notation.
    """
    number = _number(cell)
    if number is None and re.match(r"\s*[<>≤≥~≈]?\s*[0-9]", cell) and not _SLIP.fullmatch(cell):
        return None
    if number is None:
        msg = f"{place}: column value = {_quote(cell)}: not a number; give one such as 12.5, or a range such as 10-20"
        raise BadMeasurements(msg)
    if not math.isfinite(number) or number < 0:
        msg = f"{place}: column value = {_quote(cell)}: give a finite number that is not negative, or remove the row"
        raise BadMeasurements(msg)
    return number


def _number(cell: str) -> float | None:
    """Convert a text to a number. Return None if it is not a number, or has underscores."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _quote(cell: str) -> str:
    """Return the text of a cell in quotes, shortened to 40 characters, for an error message."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
