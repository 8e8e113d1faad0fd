"""Tables on a terminal. If the terminal is too narrow, whole columns are omitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from wse.reports.result import Result
from wse.reports.table import Column, Table
from wse.reports.terminal import INDENT, console_on, heading, lines, plain_table, show, table_width

GAP = 2
"""Number of spaces between two columns."""
BEST = "*"
"""Mark after the best cell of a column. The cell is also bold and green if supported."""


def print_result(result: Result, stream: TextIO, *, detail: bool = False) -> None:
    """Print the tables of a result to a stream.

    Args:
        result: Result to print.
        stream: Stream to print to.
        detail: Whether to include details that most readers do not need.
    """
    console = console_on(stream)
    print_tables(console, result.tables(detail=detail, width=console.width))


def print_tables(console: Console, tables: Iterable[Table]) -> None:
    """Print several tables, one below another."""
    for table in tables:
        print_table(console, table)


def print_table(console: Console, table: Table) -> None:
    """Print a table under its title, indented. Without rows, only the title is printed.

    A table is as wide as text, or as wide as the terminal if its columns need more space than text.
    """
    if table.title:
        heading(console, table.title, table.note)
    if not table.rows:
        return
    columns = shown_columns(console, table)
    cells = [_texts(column, table) for column in columns]
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
    for row, *texts in zip(table.rows, *cells, strict=True):
        view.add_row(*texts, style=table.style(row) if table.style else None)
    show(console, view, console.width if _fits(columns, table, console.width) else table_width(console))
    hidden_titles = [column.title for column in table.columns if column.title and column not in columns]
    footer = [*((name, text) for name, text in table.footer if name not in hidden_titles)]
    footer += _hidden_columns(table, columns, table_width(console))
    if footer:
        lines(console, footer)


def shown_columns(console: Console, table: Table) -> list[Column]:
    """Return the columns of a table that fit the width of a terminal.

    Columns whose cells are all empty are omitted. Of the others, columns with the largest
    ``priority`` are omitted first, starting with the rightmost. The first column is always shown,
    and so are columns with priority 0 whose cells can wrap.

    Args:
        console: Console to print on, which determines the width.
        table: Table with all of its columns.
    """
    columns = _filled_columns(table)
    while not _fits(columns, table, table_width(console)):
        spare = [column for column in columns[1:] if column.priority or not column.wraps]
        if not spare:
            break
        max_priority = max(column.priority for column in spare)
        columns.remove([column for column in spare if column.priority == max_priority][-1])
    return columns


def _fits(columns: Sequence[Column], table: Table, width: int) -> bool:
    """Return whether columns of a table fit in indented lines of ``width`` characters."""
    return sum(_needed_width(column, table) + GAP for column in columns) - GAP <= width - INDENT


def _filled_columns(table: Table) -> list[Column]:
    """Return the columns that have text in at least one row, and the first column."""
    return [
        column
        for number, column in enumerate(table.columns)
        if not number or any(str(column.text(row)) for row in table.rows)
    ]


def _hidden_columns(table: Table, columns: Sequence[Column], width: int) -> list[tuple[str, str]]:
    """Return a footer line that names the columns that do not fit, or [] if all are shown.

    Args:
        table: Table with all of its columns.
        columns: Columns that are shown.
        width: Number of characters per line.
    """
    titles = [column.title for column in _filled_columns(table) if column.title and column not in columns]
    quoted_titles = ", ".join(f'"{title}"' for title in titles)
    reason = f"do not fit in lines of {width} characters (--json has them)"
    return [("omitted", f"columns {quoted_titles}, which {reason}")] if titles else []


def _is_marked(column: Column, table: Table) -> bool:
    """Return whether the best value of a column is marked, so that cells need space for a mark."""
    return column.numeric and column.best_value(table.rows) is not None


def _texts(column: Column, table: Table) -> list[Text]:
    """Return the formatted cells of a column, with the best ones marked.

    If the column has a best value, the other cells get a space instead of the mark.
    """
    cells = table.cells(column)
    texts = [cell.text.copy() if isinstance(cell.text, Text) else Text(cell.text) for cell in cells]
    if any(cell.is_best for cell in cells):
        for text, cell in zip(texts, cells, strict=True):
            text.append(BEST if cell.is_best else " ")
            text.stylize("bold green" if cell.is_best else "")
    return texts


def _needed_width(column: Column, table: Table) -> int:
    """Return the width that a column needs for its heading and cells, in characters.

    If the cells of the column can wrap, the result is at most its minimum width.
    """
    text_width = max(
        cell_len(column.title) + _is_marked(column, table), *(text.cell_len for text in _texts(column, table))
    )
    width = column.width or text_width
    return min(width, column.min_width) if column.wraps else width
