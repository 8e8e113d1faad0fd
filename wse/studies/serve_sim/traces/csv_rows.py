"""Rows of a CSV trace, keyed by the column names in its first line."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence

from wse.errors import BadInput
from wse.studies.serve_sim.traces.lines import TraceLine


def count_columns(first_line: str, names: Collection[str]) -> int:
    """Return how many of the given column names occur in a CSV header; 0 if it is not CSV.

    Args:
        first_line: First line of a file.
        names: Column names to look for.
    """
    try:
        return len({cell.strip() for row in csv.reader([first_line]) for cell in row} & set(names))
    except csv.Error:
        return 0


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
