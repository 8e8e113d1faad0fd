"""Format tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from wse.reports.table import Column, Row, Table, value_of

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
        bests = [column.best_value(table.rows) for column in table.columns]
        lines = [
            [_escaped(column.title) for column in table.columns],
            ["---:" if column.numeric else "---" for column in table.columns],
            *([_cell(c, row, best) for c, best in zip(table.columns, bests, strict=True)] for row in table.rows),
        ]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    else:
        body = "\n".join(_item([str(column.text(row)) for column in table.columns]) for row in table.rows)
    footer = "\n".join(_item(pair) for pair in table.footer)
    return "\n\n".join(part for part in (title, body, footer) if part)


def _item(texts: Sequence[str]) -> str:
    """Format a row as a Markdown list item, with the first cell as its name."""
    name, text = texts[0], " ".join(texts[1:])
    return f"- {_escaped(f'{name}: {text}' if name and text else name or text)}"


def _cell(column: Column, row: Row, best: object) -> str:
    """Return a cell of a table as Markdown, in bold if its value equals ``best``."""
    text = _escaped(str(column.text(row)))
    return f"**{text}**" if best is not None and value_of(row, column.key) == best else text


def _escaped(text: str) -> str:
    """Return a string on one line, with Markdown's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
