"""Reader of CSV records that can resume at the next line after a broken record."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One record of a CSV file.

    Attributes:
        line: Line on which the record begins, counted from 1.
        cells: Texts of the record. Empty if it cannot be parsed.
        lines: Number of lines that the record covers.
        problem: Error message of the CSV parser. Empty if the record can be parsed.
    """

    line: int
    cells: list[str]
    lines: int
    problem: str = ""


class CsvRecords:
    """Iterator over the records of a CSV text, in order."""

    def __init__(self, text: str) -> None:
        self._lines = list(io.StringIO(text, newline=""))
        self.resume_at(1)

    def resume_at(self, line: int) -> None:
        """Continue with the record that begins on a line, counted from 1."""
        self._first_line = line
        self._rows = csv.reader(iter(self._lines[line - 1 :]), strict=True)

    def __iter__(self) -> CsvRecords:
        """Return this iterator."""
        return self

    def __next__(self) -> CsvRecord:
        """Return the next record. After a broken record, continue on the line after its first.

        Raises:
            StopIteration: All records were returned.
        """
        line = self._first_line + self._rows.line_num
        try:
            cells = next(self._rows)
        except csv.Error as error:
            self.resume_at(line + 1)
            return CsvRecord(line, [], 1, str(error))
        return CsvRecord(line, cells, self._first_line + self._rows.line_num - line)
