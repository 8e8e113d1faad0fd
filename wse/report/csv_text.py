"""A text in a cell of a CSV file: on one line, and no spreadsheet takes it for a formula."""

from __future__ import annotations

from typing import Final

from wse.report.terminal import shown

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula in a spreadsheet (owasp.org/www-community/attacks/CSV_Injection)."""


def csv_text(value: str) -> str:
    """A text as one cell; an apostrophe, which spreadsheets take for the sign of a text, goes before a formula.

    >>> csv_text("=1+1"), csv_text("once"), csv_text("a\\n")
    ("'=1+1", 'once', 'a\\\\n')
    """
    return shown(f"'{value}" if value.startswith(_FORMULA) else value)
