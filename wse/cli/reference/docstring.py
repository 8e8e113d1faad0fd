"""First lines of docstrings, and the comment that marks a page as generated."""

from __future__ import annotations

import inspect
from typing import Any, Final

GENERATED: Final = "<!-- Written by `python -m wse.cli.reference .`. Do not edit. -->"


def first_line(described: Any) -> str:
    """The first line of a docstring, which can be read alone."""
    return (inspect.getdoc(described) or "").partition("\n")[0]
