"""Tables as HTML, for pages and notebooks: every text escaped, numbers at the right, the best of a column marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from wse.report.table import Column, Row, Table, value_of


def tables_as_html(tables: Sequence[Table]) -> str:
    """Tables below each other, each under its title."""
    return "\n".join(table_as_html(table) for table in tables)


def table_as_html(table: Table) -> str:
    """A table as one ``<table>`` element; ``data-value`` of a cell is what a page sorts numbers by."""
    caption = f"<caption>{escape(table.title)}{_note(table.note)}</caption>" if table.title else ""
    titled = any(column.title for column in table.columns)
    head = f"<thead><tr>{''.join(map(_heading, table.columns))}</tr></thead>\n" if titled else ""
    bests = [column.best_value(table.rows) for column in table.columns]
    body = "\n".join(_row(table, row, bests) for row in table.rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def _note(note: str) -> str:
    return f" <small>{escape(note)}</small>" if note else ""


def _heading(column: Column) -> str:
    doc = f' title="{escape(column.doc)}"' if column.doc else ""
    return f'<th scope="col"{_kind(column.numeric)}{doc}>{escape(column.title)}</th>'


def _row(table: Table, row: Row, bests: Sequence[Any]) -> str:
    return f"<tr>{''.join(_cell(column, row, best) for column, best in zip(table.columns, bests, strict=True))}</tr>"


def _cell(column: Column, row: Row, best: Any) -> str:
    value = value_of(row, column.key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    sort = f' data-value="{value!r}"' if number else ""
    text = escape(str(column.text(row)))
    marked = f"<b>{text}</b>" if best is not None and value == best else text
    return f"<td{_kind(column.numeric)}{sort}>{marked}</td>"


def _kind(numeric: bool) -> str:  # noqa: FBT001
    return ' class="number"' if numeric else ""
