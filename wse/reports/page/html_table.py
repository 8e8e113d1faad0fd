"""Tables as HTML, for notebooks, and in the form in which the scripts of pages draw them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from wse.reports.table import Cell, Column, Table

_STYLE: Final = """
.wse table { border-collapse: collapse; margin: 0 0 1.2em; border: none; }
.wse caption { caption-side: top; text-align: left; font-weight: bold; color: inherit; padding: 0.2em 0;
  white-space: nowrap; }
.wse caption small { font-weight: normal; opacity: 0.7; margin-left: 0.7em; }
.wse th, .wse td { text-align: left; padding: 0.1em 1em 0.1em 0; border: none; white-space: pre; background: none; }
.wse th { border-bottom: 1px solid; font-weight: normal; opacity: 0.7; }
.wse .number { text-align: right; }
.wse .prose { white-space: normal; max-width: 60em; }
"""


def tables_as_html(tables: Sequence[Table]) -> str:
    """Return tables as HTML, each under its title.

    The tables use the colours of the notebook that displays them.
    """
    return "\n".join(['<div class="wse">', f"<style>{_STYLE}</style>", *map(table_as_html, tables), "</div>"])


def table_as_html(table: Table) -> str:
    """Return a table as one ``<table>`` element."""
    caption = f"<caption>{escape(table.title)}{_note(table.note)}</caption>" if table.title else ""
    titled = any(column.title for column in table.columns)
    head = f"<thead><tr>{''.join(map(_heading, table.columns))}</tr></thead>\n" if titled else ""
    body = "\n".join(f"<tr>{''.join(map(_cell, table.columns, line))}</tr>" for line in table.lines())
    return f"<table>{caption}{head}<tbody>{body}</tbody>{_footer(table)}</table>"


def _note(note: str) -> str:
    """Return the remark after a title as HTML, or "" if there is none."""
    return f" <small>{escape(note)}</small>" if note else ""


def _heading(column: Column) -> str:
    """Return the heading of a column as HTML, with its description as a tooltip."""
    doc = f' title="{escape(column.doc)}"' if column.doc else ""
    return f'<th scope="col"{_kind(column)}{doc}>{escape(column.title)}</th>'


def _cell(column: Column, cell: Cell) -> str:
    """Return a cell of a table as HTML, in bold if it has the best value of its column."""
    text = escape(str(cell.text))
    return f"<td{_kind(column)}>{f'<b>{text}</b>' if cell.is_best else text}</td>"


def _kind(column: Column) -> str:
    """Return the HTML ``class`` attribute of a column's cells, which determines their style."""
    return ' class="number"' if column.numeric else ' class="prose"' if column.wraps else ""


def _footer(table: Table) -> str:
    """Return the footer of a table as HTML, with cells that span all columns."""
    span = len(table.columns)
    texts = (escape(f"{name} {text}".strip()) for name, text in table.footer)
    rows = "".join(f'<tr><td class="prose" colspan="{span}">{text}</td></tr>' for text in texts)
    return f"<tfoot>{rows}</tfoot>" if rows else ""


def page_table(table: Table) -> dict[str, Any]:
    """Return a table as JSON-like data for the script ``tables.js`` to draw.

    The keys are ``title``, ``note``, ``columns`` (a dict for each column) and ``rows`` (a list of
    cells for each row).
    """
    return {
        "title": table.title,
        "note": table.note,
        "columns": [{"title": c.title, "doc": c.doc, "numeric": c.numeric, "wraps": c.wraps} for c in table.columns],
        "rows": [list(map(_script_cell, table.columns, line)) for line in table.lines()],
    }


def _script_cell(column: Column, cell: Cell) -> dict[str, Any]:
    """Return the text of a cell, the value by which it is sorted, and whether it is the best one."""
    text = str(cell.text)
    return {"text": text, "value": cell.value if column.numeric else text, "best": cell.is_best}
