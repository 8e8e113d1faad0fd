"""Numbers with units as people write them: ``1.75GHz``, ``96KiB``, ``200ms``, ``128k``, and factors such as ``x2``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_NUMBER: Final = r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_QUANTITY: Final = re.compile(rf"({_NUMBER})\s*([A-Za-zµμ][A-Za-z/µμ]*)?")
_FACTOR: Final = re.compile(rf"[x×*]\s*({_NUMBER})")
_PREFIXED: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?\s*[kKMG]i?")
LONGEST: Final = 40
"""Maximum length of a quantity in characters. A longer text is a slip."""
MOST_DIGITS: Final = 20
"""Whole numbers with this many digits are refused: they are slips, and Python is slow to read very long ones."""

TOKEN: Final = "token"
"""The unit of token counts, in which ``k`` is 1,024: a context of 128k is 131,072 tokens, as models are named."""
COUNT: Final = "1"
"""The unit of other counts, such as requests, in which ``k`` is 1,000."""

_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RATES: Final = {f"{unit}/s": scale for unit, scale in _BYTES.items()}
_TIMES: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "μs": 10**3, "ns": 1}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_COUNTS: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, **_BINARY}
_TOKENS: Final = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, **_BINARY}
_SCALES: Final[dict[str, dict[str, int]]] = {
    **dict.fromkeys(_TIMES, _TIMES),
    **dict.fromkeys(_RATES, _RATES),
    "Hz": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "byte": _BYTES | {"byte": 1},
    "byte/s": _RATES | {"byte/s": 1},
}
"""For each unit that a number is stored in: the units of the same kind, as multiples of the smallest of them."""


def units_for(unit: str) -> tuple[str, ...]:
    """Return the units in which a number stored in ``unit`` may be given; empty for a count."""
    return tuple(given for given in _SCALES.get(_counted(unit), ()) if given not in ("byte", "byte/s"))


def is_time(unit: str) -> bool:
    """Return whether a unit is one of time."""
    return unit in _TIMES


def read_quantity(text: str, unit: str) -> int | float | None:
    """Return the number in a text, converted to ``unit``, or None where the text is no such quantity.

    A number without a unit is taken to be in ``unit``. Counts accept k, M and G: multiples of 1,000, for tokens of
    1,024. Ki, Mi and Gi are multiples of 1,024 in both. A whole number is returned as an integer.

    >>> read_quantity("1.75GHz", "Hz"), read_quantity("96 KiB", "byte/PE"), read_quantity("200ms", "s")
    (1750000000, 98304, 0.2)
    >>> read_quantity("3", "cycle"), read_quantity("3 MB", "cycle"), read_quantity("5us", "µs")
    (3, None, 5)
    >>> read_quantity("128k", TOKEN), read_quantity("10k", COUNT), read_quantity("48k", "byte")
    (131072, 10000, None)
    """
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    number, given, stored = Fraction(match[1].replace("_", "")), match[2], _counted(unit)
    if given is None:
        return _number(number)
    scales = _SCALES.get(stored, _TOKENS if stored == TOKEN else _COUNTS)
    return _number(number * scales[given] / scales.get(stored, 1)) if given in scales else None


def has_unit(text: str) -> bool:
    """Return whether a text is a number followed by a unit or a prefix."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST else None
    return match is not None and match[2] is not None


def whole_number(text: str, unit: str = "") -> int | None:
    """Return the integer in a text, or None where the text is no whole number.

    Args:
        text: Decimal digits, fewer than MOST_DIGITS, with a minus sign where below 0.
        unit: TOKEN or COUNT where prefixes are accepted too, such as ``128k`` and ``1.5M``; empty for digits alone.

    >>> whole_number("4096"), whole_number("4k"), whole_number("4k", TOKEN), whole_number("1.5k", COUNT)
    (4096, None, 4096, 1500)
    """
    text = text.strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(text) if len(digits) < MOST_DIGITS else None
    number = read_quantity(text, unit) if unit and _PREFIXED.fullmatch(text) else None
    return number if isinstance(number, int) else None


def read_factor(text: str) -> float | None:
    """Return the factor of ``x2``, ``×0.5`` or ``*2``; None where a text is none, or it is not above 0.

    >>> read_factor("x2"), read_factor("×0.5"), read_factor("2"), read_factor("x-1")
    (2.0, 0.5, None, None)
    """
    match = _FACTOR.fullmatch(text.strip()) if len(text) <= LONGEST else None
    factor = float(match[1]) if match else 0.0
    return factor if 0 < factor < float("inf") else None


def _counted(unit: str) -> str:
    """Return a unit without whose it is: bytes of a PE are bytes."""
    return unit.removesuffix("/PE")


def _number(number: Fraction) -> int | float:
    """Return an integer where the number is whole and floats represent it exactly, else the nearest float."""
    if number.denominator == 1 and abs(number) < 2**53:
        return int(number)
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
