"""Parse option values of the form ``FROM-TO``, a range that includes both ends."""

from __future__ import annotations

import re
from typing import Final

from wse.errors import BadInput

_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def cycle_range(text: str) -> tuple[int, int]:
    """Return the first and last cycle specified by ``--cycles FROM-TO``.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--cycles", text, noun="cycle", example="100-120")


def token_range(text: str) -> tuple[int, int]:
    """Return the first and last token specified by ``--tokens FROM-TO``.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--tokens", text, noun="token", example="0-15")


def number_range(option: str, text: str, *, noun: str, example: str) -> tuple[int, int]:
    """Parse a number range, and return its first and last number.

    Args:
        option: Name of the option, such as ``--cycles``, for error messages.
        text: Value of the option.
        noun: Singular noun for a number in the range, such as "cycle", for error messages.
        example: Example of a valid range, for error messages.

    Raises:
        BadInput: The text is not of the form FROM-TO, or FROM is larger than TO.

    >>> number_range("--cycles", "100-120", noun="cycle", example="0-9")
    (100, 120)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        message = f"{option} {text!r}: give the first and the last {noun} as FROM-TO, such as {example}"
        raise BadInput(message)
    first, last = (int(number) for number in match.groups())
    if last < first:
        message = f"{option} {text}: it ends before it begins; give the smaller {noun} first"
        raise BadInput(message)
    return first, last
