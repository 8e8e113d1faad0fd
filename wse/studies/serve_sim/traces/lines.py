"""Lines of a trace file, read one by one with limits, and the rows of CSV traces."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from wse.errors import BadInput

LIMIT_BYTES: Final = 256 * 2**20
MAX_LINE_BYTES: Final = 2**20
BYTE_ORDER_MARK: Final = "\ufeff"


class TraceLine(NamedTuple):
    """One line of a trace file.

    Attributes:
        path: The file.
        number: Line number, from 1.
        text: The line without its line break.
    """

    path: Path
    number: int
    text: str

    @property
    def place(self) -> str:
        """File and line number, for error messages."""
        return f"{self.path}, line {self.number}"


def read_lines(path: Path) -> Iterator[TraceLine]:
    """Read a trace file line by line, so that a large file can be read in part.

    Args:
        path: Path of the file.

    Yields:
        The lines that are not empty, in the order of the file.

    Raises:
        BadInput: The file is not a readable regular file or not text in UTF-8, or a line or the
            part of the file that is read is too large.
    """
    number = total_bytes = 0
    try:
        if not path.is_file():
            reason = "is not a regular file" if path.exists() else "does not exist"
            raise BadInput(f"{path}: {reason}; give the path of a trace of requests")
        with path.open("rb") as stream:
            while data := stream.readline(MAX_LINE_BYTES + 1):
                number, total_bytes = number + 1, total_bytes + len(data)
                _check_sizes(path, number, len(data), total_bytes)
                text = data.decode("utf-8").rstrip("\r\n")
                text = text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
                if text.strip():
                    yield TraceLine(path, number, text)
    except UnicodeDecodeError as fault:
        raise BadInput(
            f"{path}, line {number}: not text in UTF-8 ({fault.reason}); give a CSV or JSON Lines file"
        ) from fault
    except (OSError, ValueError) as fault:
        raise BadInput(f"{path}: cannot be read ({fault}); check the path and its permissions") from fault


def _check_sizes(path: Path, number: int, line_bytes: int, total_bytes: int) -> None:
    """Raise BadInput if a line is too long, or if too much of the file has been read.

    Args:
        path: Path of the file, for the message.
        number: Line number, for the message.
        line_bytes: Size of the line.
        total_bytes: Size of all lines read so far, including this one.
    """
    if line_bytes > MAX_LINE_BYTES:
        raise BadInput(
            f"{path}, line {number}: is over {MAX_LINE_BYTES:,} bytes; is it a trace with one request per line?"
        )
    if total_bytes > LIMIT_BYTES:
        raise BadInput(f"{path}, line {number}: more than {LIMIT_BYTES:,} bytes; read fewer requests, with --requests")


def json_keys(first_line: str) -> list[str] | None:
    """Return the keys of the JSON object in the first line of a file; None if it is no JSON object."""
    try:
        value = json.loads(first_line)
    except (ValueError, RecursionError):
        return None
    return list(value) if isinstance(value, dict) else None


def csv_cells(first_line: str) -> list[str]:
    """Return the cells of the first line of a file, without surrounding spaces; [] if it is not CSV."""
    try:
        return [cell.strip() for row in csv.reader([first_line]) for cell in row]
    except csv.Error:
        return []


def column_names(line: TraceLine) -> list[str]:
    """Return the cells of a line of a CSV file, without surrounding spaces.

    Raises:
        BadInput: The line is not CSV.
    """
    try:
        return [cell.strip() for cell in next(csv.reader([line.text], strict=True))]
    except csv.Error as fault:
        raise BadInput(f"{line.place}: not CSV: {fault}; correct the line") from fault


def read_rows(
    lines: Iterator[TraceLine], required_columns: Sequence[str]
) -> Iterator[tuple[TraceLine, Mapping[str, str]]]:
    """Read the rows of a CSV file whose first line names its columns.

    Args:
        lines: All lines of the file.
        required_columns: Columns that the file must have.

    Yields:
        Each line below the header, and its values without surrounding spaces, keyed by column.

    Raises:
        BadInput: A column is missing or occurs twice, or a row has the wrong number of values.
    """
    header = next(lines)
    names = column_names(header)
    missing_names = [name for name in required_columns if name not in names]
    if missing_names or len(set(names)) < len(names):
        fault = f"column {missing_names[0]} is missing" if missing_names else "a column occurs twice"
        raise BadInput(f"{header.place}: {fault}; begin with a row such as {','.join(required_columns)}")
    for line in lines:
        cells = column_names(line)
        if len(cells) != len(names):
            raise BadInput(f"{line.place}: {len(cells)} values under {len(names)} columns; give one for each")
        yield line, dict(zip(names, cells, strict=True))
