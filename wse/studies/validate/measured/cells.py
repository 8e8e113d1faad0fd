"""Readers of CSV records and their cells: sizes, published values, and the table `inference`.

The rows of the table `inference` are runs of whole models or of parts of them on blocks (rectangles
of PEs). A wrong cell does not end the reading of the file. Its fault is stored with the row and
reported with the line number.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from wse.errors import BadMeasurements
from wse.files import read_toml
from wse.studies.validate.measured.text_numbers import LARGEST_NUMBER, read_whole

SCHEMA: Final = read_toml(Path(__file__).parents[3] / "data" / "measurement_tables.toml", BadMeasurements)
"""Columns of each type of table, and the numbers that their cells may have."""

LARGEST: Final[dict[str, int]] = SCHEMA["largest"]
"""Integer columns and their maximum values, except those of the table `inference`."""

_SLIP: Final = re.compile(r"\s*([0-9][0-9_.,]*|0x\w*)\s*", re.IGNORECASE)
"""Numbers in an unsupported notation, such as ``1,5``, ``1_000`` and ``0x10``."""


def product_sizes(cell: str, place: str) -> dict[str, int]:
    """Parse the matrix sizes M, N and K from a cell such as ``768,64,768``, keyed by letter.

    Individual sizes may be empty. A string with letters, such as ``4096 tokens``, contains no
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
        raise BadMeasurements(
            f"{place}: column M,N,K = {_quote(cell)}: not three sizes; give them as M,N,K, empty where not known"
        )
    sizes = {name: read_size(part, name, f"{place}: column M,N,K") for name, part in zip("MNK", parts, strict=True)}
    return {name: number for name, number in sizes.items() if number is not None}


def read_size(cell: str, column: str, place: str) -> int | None:
    """Parse the integer in a cell, or return None if the cell is empty.

    Args:
        cell: Text of the cell.
        column: Name of the column or size, a key of `LARGEST`.
        place: File, line and column, for error messages.

    Raises:
        BadMeasurements: The number is not between 1 and the maximum in `LARGEST`.
    """
    if not cell.strip():
        return None
    number = _number(cell)
    max_size = LARGEST[column]
    if number is None or not math.isfinite(number) or number != int(number):
        raise BadMeasurements(
            f"{place} = {_quote(cell)}: not a whole number; give one from 1 to {max_size:,}, or leave the cell empty"
        )
    if not 1 <= number <= max_size:
        raise BadMeasurements(
            f"{place} = {_quote(cell)}: give a whole number from 1 to {max_size:,}, or leave the cell empty"
        )
    return int(number)


def read_value(cell: str, place: str) -> float | None:
    """Parse the published number in a cell, or return None for a range or a formula.

    For example, ``10-20`` is a range, and ``2+2*ceil(n/8)`` is a formula.

    Raises:
        BadMeasurements: The cell contains no number, or the number is negative, infinite or in an
            unsupported notation.
    """
    number = _number(cell)
    if number is None and re.match(r"\s*[<>≤≥~≈]?\s*[0-9]", cell) and not _SLIP.fullmatch(cell):
        return None
    if number is None:
        raise BadMeasurements(
            f"{place}: column value = {_quote(cell)}: not a number; give one such as 12.5, or a range such as 10-20"
        )
    if not math.isfinite(number) or number < 0:
        raise BadMeasurements(
            f"{place}: column value = {_quote(cell)}: give a finite number that is not negative, or remove the row"
        )
    return number


def _number(cell: str) -> float | None:
    """Convert a string to a number; return None if it is not a number or contains underscores."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _quote(cell: str) -> str:
    """Quote the text of a cell for an error message, shortened to 40 characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


REQUIRED: Final[tuple[str, ...]] = tuple(SCHEMA["required"]["inference"])
"""Columns of the table `inference` that a file must have and whose cells must be filled."""

MAX_LAYERS: Final = 1_000
NOT_UTF_8: Final = "\N{REPLACEMENT CHARACTER}"
"""Character in place of bytes that are not UTF-8."""

_TEXTS: Final = ("metric", "unit", "settings")
"""Text columns that contain numbers."""

_DIGITS: Final = re.compile(r"(?<![\w.])[0-9][0-9,]{12,}")
_LAYERS: Final = re.compile(r"\s*[0-9]+(\s*-\s*[0-9]+)?(\s*\(.*\))?\s*", re.DOTALL)
_UNIT: Final = re.compile(
    r"[km]?cycles?|[mµun]?s|[mgk]?hz|[kmg]?i?b|bytes?|tok|tokens?|percent|ratio|wavelets?|elements?|words?",
    re.IGNORECASE,
)
KINDS: Final = ("measured", "sum of measured", "derived", "fit", "compiled", "simulated", "estimate", "predicted")
"""Texts with which the column ``kind`` may begin, in upper or lower case."""


class InferenceCells(NamedTuple):
    """The checked numbers of a row in the table `inference`, and what is wrong with the row.

    Attributes:
        sizes: Numbers of the row, rounded to integers, keyed by column. Empty and faulty cells are
            omitted.
        value: The measured value; None if it is missing or any cell of the row is faulty.
        fault: What is wrong or missing, and what is allowed. Empty if the row is complete.
    """

    sizes: dict[str, int]
    value: float | None
    fault: str


def check_cells(row: Mapping[str, str]) -> InferenceCells:
    """Check all cells of a row and convert the numbers.

    Args:
        row: Cells of the row, keyed by column name.
    """
    sizes: dict[str, int] = {}
    faults = [f"column {column} is empty; this table needs it" for column in REQUIRED if not row[column].strip()]
    for column, (low, high) in SCHEMA["ranges"].items():
        text = row[column].strip()
        if not text:
            continue
        number = _finite_number(text)
        if number is None or not low <= number <= high or (number != int(number) and column != "context_mean"):
            number_kind = "number" if column == "context_mean" else "whole number"
            faults.append(
                f"column {column} = {_quote(text)}: give a {number_kind} from {low} to {high:,}, or leave it empty"
            )
        else:
            sizes[column] = round(number)
    value = _finite_number(row["value"])
    if value is None and row["value"].strip():
        faults.append(f"column value = {_quote(row['value'])}: not a finite number; give one such as 12.5")
    faults += _text_faults(row, value)
    low_context, high_context = sizes.get("context_min"), sizes.get("context_max")
    if low_context is not None and high_context is not None and low_context > high_context:
        faults.append(f"context_min = {low_context} is larger than context_max = {high_context}; swap them")
    return InferenceCells(sizes, None if faults else value, "; ".join(faults))


def _text_faults(row: Mapping[str, str], value: float | None) -> list[str]:
    """Return error messages for the cells of a row that contain an invalid string or number.

    Args:
        row: Cells of the row, keyed by column name.
        value: The number in the column ``value``. It may be negative only if the metric is a
            change.
    """
    faults = []
    layers, unit, kind = row["layers_per_stage"], row["unit"], row["kind"]
    if layers.strip() and not _LAYERS.fullmatch(layers):
        faults.append(f"column layers_per_stage = {_quote(layers)}: give a number such as 9, or a range such as 2-4")
    elif layers.strip():
        numbers = [read_whole(number) for number in re.findall(r"[0-9]+", layers.partition("(")[0])]
        if not all(number and number <= MAX_LAYERS for number in numbers):
            faults.append(f"column layers_per_stage = {_quote(layers)}: give numbers from 1 to {MAX_LAYERS:,}")
    for column in _TEXTS:
        for number in _DIGITS.findall(row[column]):
            if read_whole(number) is None:
                faults.append(f"column {column}: the number {_quote(number)} is larger than {LARGEST_NUMBER:,}")
    faults += [
        f"column {column}: has bytes that are not UTF-8; save the file as UTF-8"
        for column, cell in row.items()
        if NOT_UTF_8 in cell
    ]
    if unit.strip() and not any(_UNIT.fullmatch(word) for word in re.findall(r"[^\W\d_]+", unit)):
        faults.append(f"column unit = {_quote(unit)}: names no known unit; give one such as cycles, us, bytes per PE")
    if kind.strip() and not kind.strip().lower().startswith(KINDS):
        faults.append(f"column kind = {_quote(kind)}: give one of {', '.join(KINDS)}")
    if value is not None and value < 0 and not row["metric"].strip().lower().startswith(("change", "difference")):
        text = f"column value = {_quote(row['value'])}: negative"
        faults.append(f"{text}; only metrics that begin with change or difference may be")
    return faults


def _finite_number(cell: str) -> float | None:
    """Convert a string to a finite number, or return None if it is not one."""
    number = _number(cell)
    return number if number is not None and math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One record of a CSV file.

    Attributes:
        line: Line on which the record begins, counted from 1.
        cells: Cells of the record. Empty if it cannot be parsed.
        problem: Error message of the CSV parser. Empty if the record can be parsed.
    """

    line: int
    cells: list[str]
    problem: str = ""


def read_records(text: str) -> Iterator[CsvRecord]:
    """Yield the records of CSV data that are not empty, in order. The first one is the header.

    A record with an unclosed quote wrongly extends over the following lines. If a record cannot be
    parsed, or has several lines and another number of cells than the header, reading therefore
    continues on the line after its start.
    """
    lines, columns = list(io.StringIO(text, newline="")), 0
    rows, start, line = csv.reader(iter(lines), strict=True), 1, 1
    while line <= len(lines):
        try:
            cells, problem = next(rows), ""
        except csv.Error as error:
            cells, problem = [], str(error)
        record_lines = start + rows.line_num - line
        if problem or any(cell.strip() for cell in cells):
            yield CsvRecord(line, cells, problem)
            columns = columns or len(cells)
            if problem or (record_lines > 1 and len(cells) != columns):
                start = line + 1
                rows = csv.reader(iter(lines[line:]), strict=True)
        line = start + rows.line_num
