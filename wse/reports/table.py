"""Table: rows under described columns, the common form in which results are presented.

This module formats tables as Markdown. Other formats are written by
``wse.reports.terminal_table``, ``wse.reports.rows_csv`` and ``wse.reports.page.html_table``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from rich.text import Text

from wse.reports.number_text import count
from wse.reports.terminal import printable

Row = Any
"""Mapping from keys to values, or an object with attributes of these names, as a ``Result``."""


def value_of(row: Row, key: str) -> Any:
    """Return the value of a row under a key, or None if the row has no such key.

    If the row is an object, the key may lead to a nested attribute, such as ``prediction.users``.
    """
    if isinstance(row, Mapping):
        return row.get(key)
    for name in key.split("."):
        row = getattr(row, name, None)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: where its values are in a row, its heading, and how cells are formatted.

    Attributes:
        key: Key of the values in a row, as for `value_of`.
        title: Displayed heading.
        doc: One-line description of the column.
        formatter: Function that returns the text of the value under ``key``. Missing values leave
            the cell empty.
        cell: Function that returns the text of the cell from the whole row. It replaces
            ``formatter``.
        numeric: Whether the cells are numbers, which are right-aligned and sorted by value.
        best: Whether the largest or the smallest value of the column is marked.
        priority: On a narrow terminal, columns with the largest priority are omitted first, and
            columns with 0 last, from right to left. The first column is never omitted.
        wraps: Whether a long cell may continue on additional lines.
        style: Style of the cells on a terminal, in rich's notation.
        min_width: Minimum width of a column that wraps, in characters. Other columns are omitted
            before it becomes narrower.
        width: Width of the column on a terminal, in characters. Longer cells are truncated. None
            means as wide as needed.
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
        """Return the text of the column's cell in a row, or "" if the row has no value for it."""
        if self.cell is not None:
            return self.cell(row)
        value = value_of(row, self.key)
        return "" if value is None else self.formatter(value)

    def best_value(self, rows: Sequence[Row]) -> Any:
        """Return the largest or smallest value of the column, which is marked as the best.

        The result is None if the column does not define which value is best, or if all values are
        equal.
        """
        if not self.best:
            return None
        values = [value for row in rows if (value := value_of(row, self.key)) is not None]
        if len(set(values)) < 2:
            return None
        return max(values) if self.best == "largest" else min(values)


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: Text of the cell; empty if the row has no value for the column.
        value: Value of the row under the key of the column, or None.
        is_best: Whether the value is the best one of the column.
    """

    text: str | Text
    value: Any
    is_best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with columns, rows, a title, a note and a footer.

    Attributes:
        columns: Columns from left to right.
        rows: Rows with values under the keys of the columns. A missing value leaves its cell empty.
        title: Title of the table.
        note: Remark next to the title.
        footer: Names and explanations below the rows, omitted if there are no rows. On a terminal,
            an explanation named after a column is shown only with this column.
        style: Function that returns the style of a row on a terminal, in rich's notation; None for
            no styles.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    note: str = ""
    footer: Sequence[tuple[str, str]] = ()
    style: Callable[[Row], str] | None = None

    def cells(self, column: Column) -> list[Cell]:
        """Return the cells of a column, from the first row to the last."""
        best = column.best_value(self.rows)
        values = [value_of(row, column.key) for row in self.rows]
        return [
            Cell(column.text(row), value, best is not None and value == best)
            for row, value in zip(self.rows, values, strict=True)
        ]

    def lines(self) -> list[tuple[Cell, ...]]:
        """Return the cells of each row, from the first column to the last."""
        return list(zip(*map(self.cells, self.columns), strict=True))


def number(key: str, title: str = "", formatter: Callable[[Any], str] = count, **settings: Any) -> Column:
    """Return a table column for numbers.

    Args:
        key: Key of the values in a row.
        title: Displayed heading.
        formatter: Function that returns the text of a number.
        **settings: Additional column attributes.
    """
    return Column(key=key, title=title, formatter=formatter, numeric=True, **settings)


def address(key: str, title: str = "") -> Column:
    """Return a table column for SRAM addresses, which are shown in hexadecimal.

    Args:
        key: Key of the addresses in a row.
        title: Displayed heading.
    """
    return number(key, title, "{:#06x}".format)


def more_rows(rows: Sequence[Row], shown_rows: int) -> tuple[tuple[str, str], ...]:
    """Return a footer that states how many rows of a table are not shown.

    The footer is empty if all rows are shown.

    Args:
        rows: All rows.
        shown_rows: Number of rows that are shown.
    """
    return (("...", f"and {len(rows) - shown_rows} more; --json has them all"),) if len(rows) > shown_rows else ()


def pair_table(rows: Sequence[tuple[str, str]], title: str = "", note: str = "") -> Table:
    """Return a two-column table of names and values, without headings.

    Args:
        rows: Names and values.
        title: Title of the table.
        note: Remark next to the title.
    """
    columns = (Column(key="name", style="bright_black", wraps=True), Column(key="text", wraps=True))
    return Table(columns=columns, rows=[{"name": name, "text": text} for name, text in rows], title=title, note=note)


_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#~&])")
"""Characters that have a special meaning in Markdown or HTML."""


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a Markdown table. Vertical bars in cells are escaped.

    Args:
        head: Column headings.
        rows: Cells of each row, as Markdown.
    """
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def tables_as_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, each under its title.

    Strings are escaped, numbers are right-aligned, and the best value of a column is bold. Tables
    without rows are omitted.
    """
    return "\n\n".join(_table(table) for table in tables if table.rows) + "\n"


def _table(table: Table) -> str:
    """Return a table as Markdown. A table without column headings becomes a list."""
    title = f"**{_escaped(table.title)}** {_escaped(table.note)}".strip() if table.title else ""
    if any(column.title for column in table.columns):
        lines = [
            [_escaped(column.title) for column in table.columns],
            ["---:" if column.numeric else "---" for column in table.columns],
            *(list(map(_cell, line)) for line in table.lines()),
        ]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    else:
        body = "\n".join(_item([str(cell.text) for cell in line]) for line in table.lines())
    footer = "\n".join(_item(pair) for pair in table.footer)
    return "\n\n".join(part for part in (title, body, footer) if part)


def _item(texts: Sequence[str]) -> str:
    """Format a row as a Markdown list item, with the first cell as its name."""
    name, text = texts[0], " ".join(texts[1:])
    return f"- {_escaped(f'{name}: {text}' if name and text else name or text)}"


def _cell(cell: Cell) -> str:
    """Return a cell of a table as Markdown, in bold if it has the best value of its column."""
    text = _escaped(str(cell.text))
    return f"**{text}**" if cell.is_best else text


def _escaped(text: str) -> str:
    """Return a string on one line, with Markdown's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
