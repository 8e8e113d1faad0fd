"""Tables on a terminal: nothing is ever cut off; where the width does not do, whole columns are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from wse.reports.result import Result
from wse.reports.table import Column, Row, Table, value_of
from wse.reports.terminal import INDENT, console_on, heading, lines, plain_table, show

GAP = 2
"""Spaces between two columns."""
BEST = "*"
"""The mark behind the best cell of a column, which is bold and green too where a terminal shows that."""


def print_result(result: Result, stream: TextIO, *, detail: bool = False) -> None:
    """Print the tables of a result."""
    console = console_on(stream)
    print_tables(console, result.tables(detail=detail, width=console.width))


def print_tables(console: Console, tables: Iterable[Table]) -> None:
    """Print tables below each other."""
    for table in tables:
        print_table(console, table)


def print_table(console: Console, table: Table) -> None:
    """Print a table under its title, indented; the title alone where it has no rows."""
    if table.title:
        heading(console, table.title, table.note)
    if not table.rows:
        return
    cells = {column.key: _cells(column, table) for column in table.columns}
    columns = shown_columns(console, table)
    view = plain_table(header=any(column.title for column in columns))
    for column in columns:
        marked = _is_marked(column, table)
        view.add_column(
            f"{column.title}{' ' * marked}",
            justify="right" if column.numeric else "left",
            no_wrap=not column.wraps and bool(column.width or len(columns) > 1),
            overflow="ellipsis" if column.width else "fold",
            style=column.style,
            width=column.width,
        )
    for index in range(len(table.rows)):
        style = table.style(table.rows[index]) if table.style else None
        view.add_row(*(cells[column.key][index] for column in columns), style=style)
    show(console, view)
    if table.footer:
        lines(console, table.footer)


def shown_columns(console: Console, table: Table) -> list[Column]:
    """The columns that fit the width: those with the largest priority number go first, the last of equals before.

    The first column stays, and of a table of names and texts the text, which goes on in further lines.
    """
    width = {column.key: _needed_width(column, table) + GAP for column in table.columns}
    columns = list(table.columns)
    while sum(width[column.key] for column in columns) - GAP > console.width - INDENT:
        spare = [column for column in columns[1:] if column.priority or not column.wraps]
        if not spare:
            break
        worst = max(column.priority for column in spare)
        columns.remove([column for column in spare if column.priority == worst][-1])
    return columns


def _is_marked(column: Column, table: Table) -> bool:
    """Return whether the best cell of a column has a mark behind it, for which all cells leave a place."""
    return column.numeric and column.best_value(table.rows) is not None


def _cells(column: Column, table: Table) -> list[Text]:
    """Return the texts of a column's cells, the best of them marked."""
    best = column.best_value(table.rows)
    return [_cell(column, row, best) for row in table.rows]


def _cell(column: Column, row: Row, best: Any) -> Text:
    text = column.text(row)
    cell = text.copy() if isinstance(text, Text) else Text(text)
    if best is None:
        return cell
    if value_of(row, column.key) != best:
        return cell.append(" ")
    cell.append(BEST)
    cell.stylize("bold green")
    return cell


def _needed_width(column: Column, table: Table) -> int:
    cells = _cells(column, table)
    widest = max(cell_len(column.title) + _is_marked(column, table), *(cell.cell_len for cell in cells))
    widest = column.width or widest
    return min(widest, column.min_width) if column.wraps else widest
