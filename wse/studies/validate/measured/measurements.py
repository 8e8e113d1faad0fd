"""Reader of CSV files with published or user-provided measurements.

Each row becomes a Measurement. An invalid cell is reported with its file, line, column and value. A
file has the columns of one of five tables, in any order:

- `waferllm`: kernels and layers of language models on a wafer
- `microbench`: collectives, links, PE cores
- `gpu`: serving speeds of GPUs
- `public`: serving speeds of services
- `inference`: inference on a wafer by step, layer, phase, collective and memory. In this table, a
  wrong row does not raise an error but becomes a Measurement with a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wse.errors import BadMeasurements, UnknownName
from wse.files import read_file
from wse.studies.validate.measured.cells import (
    LARGEST,
    NOT_UTF_8,
    REQUIRED,
    SCHEMA,
    CsvRecord,
    check_cells,
    product_sizes,
    read_records,
    read_size,
    read_value,
)
from wse.studies.validate.measured.text_numbers import check_unit
from wse_mappings.rounding import ceil_div

BUNDLED: Final = Path(__file__).parents[3] / "data" / "measurements"
"""Folder of the files that `wse validate` reads by default."""

FILE_LIMIT_BYTES: Final = 2**24
MAX_ROWS: Final = 100_000
LONGEST_CELL: Final = 10_000
TABLES: Final[dict[str, tuple[str, ...]]] = {name: tuple(columns) for name, columns in SCHEMA["columns"].items()}
"""Columns of each table type."""

TOLERANT: Final = ("inference",)
"""Tables in which an invalid row is kept, with its fault, instead of rejecting the file.

Only the columns `REQUIRED` must be present. The cells of other missing columns count as empty, and
unknown columns are ignored."""

ELEMENT_BYTES: Final[dict[str, int]] = SCHEMA["element_bytes"]
"""Bytes per element, keyed by the element-type names used in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A published measurement: one row of a CSV file.

    Attributes:
        file: Name of the file, as specified by the user.
        line: Line on which the row begins, counted from 1.
        table: Type of table, a key of `TABLES`, which determines the columns of the file.
        input: Cells of the row, keyed by column name.
        measured: The published value. None if the row contains a range or a formula instead of a
            single number.
        sizes: Sizes stated in the row, such as PE rows or matrix sizes. For the table `inference`,
            the keys are column names; for other tables, keys of
            `wse.studies.validate.measured.cells.LARGEST`.
        fault: Why the row cannot be used. Empty for a valid row.
    """

    file: str
    line: int
    table: str
    input: Mapping[str, str]
    measured: float | None
    sizes: Mapping[str, int]
    fault: str = ""

    def text(self, column: str) -> str:
        """Return the row's text in a column, or "" if the table has no such column."""
        return self.input.get(column, "")

    @property
    def rows(self) -> int | None:
        """Number of PE rows, from the column ``grid_h``; None if not stated."""
        return self.sizes.get("grid_h")

    @property
    def cols(self) -> int | None:
        """Number of PE columns, from the column ``grid_w``; None if not stated."""
        return self.sizes.get("grid_w")

    @property
    def words(self) -> int | None:
        """Size of the vector on each PE in 32-bit words, rounded up; None if not stated."""
        bytes_ = self.sizes.get("vector_len_bytes")
        return None if bytes_ is None else ceil_div(bytes_, 4)

    @property
    def element_bytes(self) -> int | None:
        """Bytes per element; None if the element type is not stated or is unknown."""
        return ELEMENT_BYTES.get(self.text("dtype").strip().lower())

    @property
    def dtype(self) -> str | None:
        """Element type: ``float16`` (the default) or ``float32``; None for any other type."""
        if not self.text("dtype").strip():
            return "float16"
        return {2: "float16", 4: "float32"}.get(self.element_bytes or 0)

    @property
    def kernel(self) -> str:
        """Name of what was measured: the phase for rows of the table `inference`, else the kernel.

        If no kernel is stated, it is the name of the model. Without a model, it is the system and
        its phase.
        """
        if self.table == "inference":
            return self.text("phase")
        system = ", ".join(part for part in (self.text("system"), self.text("phase")) if part)
        return self.text("kernel") or self.text("model") or system

    @property
    def platform(self) -> str:
        """The machine, in the words of the source."""
        return self.text("platform") or self.text("hardware") or self.text("system") or self.text("machine")

    @property
    def source(self) -> str:
        """Publication that contains the value, as a title or web address."""
        return self.text("source") or self.text("source_url") or self.text("source_path")

    @property
    def evidence(self) -> str:
        """Type of evidence for the value, such as measured or simulated."""
        return self.text("value_kind") or self.text("evidence") or self.text("vendor_or_independent")


def read(path: Path, name: str = "") -> list[Measurement]:
    """Read all measurements of a CSV file.

    Args:
        path: The file.
        name: Name of the file in measurements and error messages. By default, this is the path.

    Raises:
        BadMeasurements: The file cannot be read, is too large, or has an invalid cell. The message
            states the line, the column and the value.
        UnknownName: The file has a column that is not defined by its table type. The message
            suggests the closest known column.
    """
    return list(parse(_text(path), name or str(path)))


def parse(text: str, file: str) -> Iterator[Measurement]:
    """Parse the text of a CSV file and yield its measurements. Empty lines are skipped.

    Args:
        text: Content of the file.
        file: Name of the file in measurements and error messages.

    Raises:
        BadMeasurements: The string is empty or has an invalid cell. The message states the line,
            the column and the value.
        UnknownName: A column is unknown. The message suggests the closest known column.
    """
    table, count = "", 0
    line_of_id: dict[str, int] = {}
    header: list[str] = []
    for record in read_records(text):
        place = f"{file}: line {record.line}"
        if record.problem and table not in TOLERANT:
            raise BadMeasurements(
                f"{place}: not CSV ({record.problem}); close the quote, or double a quote inside a quoted cell"
            )
        if not header:
            header = [cell.strip() for cell in record.cells]
            table = _table(header, place)
            continue
        count += 1
        if count > MAX_ROWS:
            raise BadMeasurements(f"{place}: more than {MAX_ROWS:,} rows; split the file")
        if table in TOLERANT:
            m = _tolerant_measurement(file, table, header, record)
            first_line = line_of_id.setdefault(m.text("id").strip() or f"line {m.line}", m.line)
            if first_line != m.line and not m.fault:
                fault = f"the id {m.text('id')[:40]!r} is that of line {first_line}; give each row an id of its own"
                m = replace(m, measured=None, fault=fault)
            yield m
        else:
            yield _measurement(file, record.line, table, header, record.cells)
    if not header:
        raise BadMeasurements(
            f"{file}: is empty; the first line names the columns, such as {','.join(TABLES['microbench'][:4])},..."
        )


def _text(path: Path) -> str:
    data = read_file(path, FILE_LIMIT_BYTES, BadMeasurements, "a CSV file of measurements")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        header, _, _ = data.decode("utf-8-sig", errors="replace").partition("\n")
        columns = {name.strip().strip('"') for name in header.split(",")}
        if NOT_UTF_8 not in header and columns.issuperset(REQUIRED):
            return data.decode("utf-8-sig", errors="replace")  # in a tolerant table, such bytes are faults of rows
        line = data.count(b"\n", 0, error.start) + 1
        raise BadMeasurements(
            f"{path}: line {line}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from error


def _table(header: list[str], place: str) -> str:
    """Return the table type (a key of `TABLES`) to which a file's columns belong.

    Args:
        header: Names of the columns in the file.
        place: File and line, for error messages.

    Raises:
        BadMeasurements: A column is missing or duplicated, or the header matches none of the table
            types.
        UnknownName: A column is not defined by the table type.
    """
    name = max(TABLES, key=lambda t: (len(set(TABLES[t]) & set(header)), -len(TABLES[t])))
    columns = TABLES[name]
    known_columns = set(columns) & set(header)
    if len(known_columns) < len(columns) // 2:
        raise BadMeasurements(
            f"{place}: its columns begin {', '.join(map(repr, header[:3]))}: not those of a file of measurements; "
            f"give one with columns {', '.join(TABLES['microbench'])}, or see docs/formats.md"
        )
    for column in header:
        if column not in columns and name not in TOLERANT:
            raise UnknownName("column", column, columns, place=place)
        if header.count(column) > 1 and column in columns:
            raise BadMeasurements(
                f"{place}: the column {column!r} is given {header.count(column)} times; remove all but one"
            )
    missing = [column for column in (REQUIRED if name in TOLERANT else columns) if column not in header]
    if missing:
        cells = "its cells must be filled" if name in TOLERANT else "its cells may be empty"
        raise BadMeasurements(f"{place}: has no column {missing[0]!r}; add it to every row, {cells}")
    return name


def _measurement(file: str, line: int, table: str, header: list[str], cells: list[str]) -> Measurement:
    """Validate the cells of a row and return the measurement that the row describes.

    Args:
        file: Name of the file.
        line: Line on which the row begins.
        table: Type of table, a key of `TABLES`.
        header: Names of the columns.
        cells: Cells of the row.

    Raises:
        BadMeasurements: A cell is invalid, or there are too few or too many cells.
    """
    place = f"{file}: line {line}"
    if len(cells) != len(header):
        raise BadMeasurements(
            f"{place}: has {len(cells)} cells, the first line {len(header)} columns; "
            "quote cells that hold commas, and give empty cells for what is not known"
        )
    row = dict(zip(header, cells, strict=True))
    for column, cell in row.items():
        if len(cell) > LONGEST_CELL:
            raise BadMeasurements(
                f"{place}: column {column} has {len(cell):,} characters; at most {LONGEST_CELL:,}: shorten it"
            )
    sizes = {}
    for column in (column for column in LARGEST if column in row):
        number = read_size(row[column], column, f"{place}: column {column}")
        if number is not None:
            sizes[column] = number
    sizes |= product_sizes(row.get("M,N,K", ""), place)
    check_unit(row["metric"], f"{place}: column metric")
    return Measurement(
        file=file, line=line, table=table, input=row, measured=read_value(row["value"], place), sizes=sizes
    )


def _tolerant_measurement(file: str, table: str, header: list[str], record: CsvRecord) -> Measurement:
    """Return the measurement in a row. If the row is wrong, the measurement states the fault.

    Args:
        file: Name of the file.
        table: Type of table, a key of `TABLES`.
        header: Names of the columns.
        record: The row.
    """
    cells = dict(zip(header, (cell[:LONGEST_CELL] for cell in record.cells), strict=False))
    row = dict.fromkeys(TABLES[table], "") | {column: cell for column, cell in cells.items() if column in TABLES[table]}
    sizes, value, fault = check_cells(row)
    if record.problem:
        fault = f"not CSV ({record.problem}); close the quote, or double a quote inside a quoted cell"
    elif len(record.cells) != len(header):
        fault = f"has {len(record.cells)} cells, the first line {len(header)} columns; quote cells that hold commas"
    number = None if fault else value
    return Measurement(file=file, line=record.line, table=table, input=row, measured=number, sizes=sizes, fault=fault)
