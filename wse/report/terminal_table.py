"""Tables on a terminal: no number is ever cut off; where the width does not do, whole columns are left out."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from wse.report.table import Column, Row, Table
from wse.report.terminal import INDENT, heading, plain_table, show

GAP = 2
"""Spaces between two columns."""
NARROWEST_FOLD = 12
"""Characters that a column which folds needs at least."""


def print_table(console: Console, table: Table) -> None:
    """Print a table under its title, indented; nothing where it has no rows."""
    if table.title:
        heading(console, table.title, table.note)
    if not table.rows:
        return
    cells = {column.key: [_marked(column, row, table) for row in table.rows] for column in table.columns}
    columns = _fitting(table.columns, cells, console.width - INDENT)
    view = plain_table(header=any(column.title for column in columns))
    for column in columns:
        justify = "right" if column.numeric else "left"
        view.add_column(column.title, justify=justify, no_wrap=not column.folds, overflow="fold")  # type: ignore[arg-type]
    for index in range(len(table.rows)):
        view.add_row(*(cells[column.key][index] for column in columns))
    show(console, view)


def _marked(column: Column, row: Row, table: Table) -> Text:
    """The text of a cell, bold where it is the best of its column."""
    text = column.text(row)
    cell = text.copy() if isinstance(text, Text) else Text(text)
    best = column.best_value(table.rows)
    if best is not None and row.get(column.key) == best:
        cell.stylize("bold green")
    return cell


def _fitting(columns: tuple[Column, ...], cells: dict[str, list[Text]], width: int) -> list[Column]:
    """The columns that fit the width: those with the largest priority number go first, the last of equals before."""
    kept = list(columns)
    while sum(_needed(column, cells[column.key]) + GAP for column in kept) - GAP > width:
        spare = [column for column in kept if column.priority]
        if not spare:
            break
        worst = max(column.priority for column in spare)
        kept.remove([column for column in spare if column.priority == worst][-1])
    return kept


def _needed(column: Column, cells: list[Text]) -> int:
    widest = max(len(column.title), *(cell.cell_len for cell in cells))
    return min(widest, NARROWEST_FOLD) if column.folds else widest
