"""Ranges of numbers as options name them: ``FROM-TO``, both ends included."""

from __future__ import annotations

import re
from typing import Final

from wse.errors import BadInput

_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def cycle_range(text: str) -> tuple[int, int]:
    """Return the first and the last cycle that ``--cycles FROM-TO`` names. Raises: BadInput if it is no range."""
    return number_range("--cycles", text, what="cycle", example="100-120")


def token_range(text: str) -> tuple[int, int]:
    """Return the first and the last token that ``--tokens FROM-TO`` names. Raises: BadInput if it is no range."""
    return number_range("--tokens", text, what="token", example="0-15")


def number_range(option: str, text: str, *, what: str, example: str) -> tuple[int, int]:
    """Return the first and the last of what an option names.

    Args:
        option: Its name, such as ``--cycles``.
        text: What was given.
        what: A single one, such as ``cycle``.
        example: A range that could be given.

    Raises:
        BadInput: it is no range, or ends before it begins.

    >>> number_range("--cycles", "100-120", what="cycle", example="0-9")
    (100, 120)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        message = f"{option} {text!r}: give the first and the last {what} as FROM-TO, such as {example}"
        raise BadInput(message)
    first, last = (int(number) for number in match.groups())
    if last < first:
        message = f"{option} {text}: it ends before it begins; give the smaller {what} first"
        raise BadInput(message)
    return first, last
