"""Numbers in texts of measurements, such as ``1,024`` in a metric."""

from __future__ import annotations

import re
from typing import Final

LARGEST_NUMBER: Final = 10**12
"""Largest number that is read from a text. No size or time of a run exceeds it."""

_NUMBER: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+(\.[0-9]+)?|\.[0-9]+")


def read_number(text: str | None) -> float | None:
    """Convert a text to a number, or return None if it is not a number up to `LARGEST_NUMBER`.

    Commas may separate groups of three digits. A comma or full stop at the end is ignored.

    >>> read_number("1,024."), read_number("1.2.3"), read_number(",")
    (1024.0, None, None)
    """
    number = (text or "").strip().rstrip(",.")
    if len(number) > 40 or not _NUMBER.fullmatch(number):
        return None
    value = float(number.replace(",", ""))
    return value if value <= LARGEST_NUMBER else None


def read_whole(text: str | None) -> int | None:
    """Convert a text to an integer, or return None if it is not one up to `LARGEST_NUMBER`.

    >>> read_whole("8192,"), read_whole("1.5")
    (8192, None)
    """
    value = read_number(text)
    return int(value) if value is not None and value == int(value) else None
