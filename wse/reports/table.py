"""Table: rows under described columns, the one form in which results are printed, written as CSV and put on pages.

Renderers: `wse.reports.terminal_table`, `wse.reports.rows_csv`, `wse.reports.page.html_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.text import Text

from wse.reports.terminal import count, printable

Row = Any
"""A mapping from keys to values, or an object with attributes of these names, such as a `wse.reports.result.Result`."""


def value_of(row: Row, key: str) -> Any:
    """Return the value of a row under a key; None where it has none."""
    return row.get(key) if isinstance(row, Mapping) else getattr(row, key, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: the key of its values in a row, its heading, and how a cell reads.

    Attributes:
        key: Key in the row.
        title: Heading for people.
        doc: What the column means, in one line.
        formatter: The text of a value under ``key``. A missing value leaves the cell empty.
        cell: The text of a row's cell, where that needs more than the value under ``key``.
        numeric: Whether cells are numbers, which stand at the right and sort by value.
        best: Whether the largest or the smallest value of the column is marked.
        priority: Columns with the largest number are left out first where a terminal is narrow, those with 0 last,
            from the right; the first column of a table stays.
        wraps: Whether a long text may go on in a further line.
        style: The style of its cells on a terminal, as rich writes it.
        min_width: Characters that a column that wraps has at least, before others are left out.
        width: Characters of the column on a terminal, where a longer text is cut off; as many as it needs where None.
    """

    key: str
    title: str = ""
    doc: str = ""
    formatter: Callable[[Any], str] = printable
    cell: Callable[[Row], str | Text] | None = None
    numeric: bool = False
    best: Literal["", "largest", "smallest"] = ""
    priority: int = 0
    wraps: bool = False
    style: str = ""
    min_width: int = 12
    width: int | None = None

    def text(self, row: Row) -> str | Text:
        """Return the text of the row's cell; empty where the row has no such value."""
        if self.cell is not None:
            return self.cell(row)
        value = value_of(row, self.key)
        return "" if value is None else self.formatter(value)

    def best_value(self, rows: Sequence[Row]) -> Any:
        """Return the value that is marked in ``rows``; None where nothing is, or no two rows have different ones."""
        if not self.best:
            return None
        values = [value for row in rows if (value := value_of(row, self.key)) is not None]
        if len(set(values)) < 2:
            return None
        return max(values) if self.best == "largest" else min(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns, with a title, a note beside it and lines below.

    Attributes:
        columns: The columns, from left to right.
        rows: The rows, each with values under the columns' keys; one that is missing leaves a cell empty.
        title: What the table is of.
        note: What is said beside the title.
        footer: Names and texts that stand below the rows; not shown where there are none.
        style: The style of a row on a terminal, as rich writes it; none where this is None.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    note: str = ""
    footer: Sequence[tuple[str, str]] = ()
    style: Callable[[Row], str] | None = None


def number(key: str, title: str = "", formatter: Callable[[Any], str] = count, **settings: Any) -> Column:
    """Return a column of numbers, each written by ``formatter``."""
    return Column(key=key, title=title, formatter=formatter, numeric=True, **settings)


def address(key: str, title: str = "") -> Column:
    """Return a column of addresses in the SRAM of a PE, in hexadecimal digits."""
    return number(key, title, "{:#06x}".format)


def more_rows(rows: Sequence[Row], shown_rows: int) -> tuple[tuple[str, str], ...]:
    """Return the line below a table that shows the first rows alone: how many others there are."""
    return (("...", f"and {len(rows) - shown_rows} more; --json has them all"),) if len(rows) > shown_rows else ()


def pair_table(rows: Sequence[tuple[str, str]], title: str = "", note: str = "") -> Table:
    """Return a table of names and texts, without headings."""
    columns = (Column(key="name", style="bright_black", wraps=True), Column(key="text", wraps=True))
    return Table(columns=columns, rows=[{"name": name, "text": text} for name, text in rows], title=title, note=note)
