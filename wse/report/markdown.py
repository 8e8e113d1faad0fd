"""Pieces of Markdown that pages share."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table; a bar in a cell does not end it."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
