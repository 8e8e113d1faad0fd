"""Tables in the form in which the scripts of pages draw them: sortable, with marked best values."""

from __future__ import annotations

from typing import Any

from wse.reports.table import Column, Table, value_of


def page_table(table: Table) -> dict[str, Any]:
    """Return a table as JSON-like data for the script ``tables.js`` to draw.

    The keys are ``title``, ``note``, ``columns`` (a dict for each column) and ``rows`` (a list of
    cells for each row).
    """
    bests = [column.best_value(table.rows) for column in table.columns]
    return {
        "title": table.title,
        "note": table.note,
        "columns": [{"title": c.title, "doc": c.doc, "numeric": c.numeric, "wraps": c.wraps} for c in table.columns],
        "rows": [
            [_cell(column, row, best) for column, best in zip(table.columns, bests, strict=True)] for row in table.rows
        ],
    }


def _cell(column: Column, row: Any, best: Any) -> dict[str, Any]:
    """Return a cell as plain values for the script ``tables.js`` to draw.

    Args:
        column: Column of the cell.
        row: Row of the cell.
        best: Best value of the column, or None.

    Returns:
        The ``text`` of the cell, the ``value`` by which it is sorted, and whether it is the
        ``best``.
    """
    value, text = value_of(row, column.key), str(column.text(row))
    return {"text": text, "value": value if column.numeric else text, "best": best is not None and value == best}
