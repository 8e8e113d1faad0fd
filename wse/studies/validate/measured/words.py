"""Patterns that recognise names, such as those of algorithms or GPUs, in the free text of measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadMeasurements
from wse.files import read_toml

WORDS_FILE: Final = Path(__file__).parents[3] / "data" / "measurement_words.toml"


@cache
def _sections() -> dict[str, Any]:
    return read_toml(WORDS_FILE, BadMeasurements)


@cache
def rows_of(section: str) -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    """Return the patterns in a section of `WORDS_FILE`, each with its row, in order."""
    return tuple((re.compile(row["words"]), row) for row in _sections()[section])


def row_in(section: str, text: str) -> Mapping[str, Any] | None:
    """Return the first row of a section whose pattern occurs in a text, or None."""
    return next((row for pattern, row in rows_of(section) if pattern.search(text)), None)


def name_in(section: str, text: str) -> str | None:
    """Return the name in the first row of a section whose pattern occurs in a text, or None."""
    row = row_in(section, text)
    return None if row is None else row["name"]
