"""Parse numbers with units, such as ``96KiB``, ``200ms`` and ``128k``, and factors like ``x2``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_NUMBER: Final = r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_QUANTITY: Final = re.compile(rf"({_NUMBER})\s*([A-Za-zµμ][A-Za-z/µμ]*)?")
_FACTOR: Final = re.compile(rf"[x×*]\s*({_NUMBER})")
_PREFIXED: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?\s*[kKMG]i?")
LONGEST: Final = 40
"""Maximum length of a quantity in characters. Longer strings are assumed to be mistakes."""
MAX_DIGITS: Final = 20
"""Number of digits at which integers are rejected, because Python parses very long ones slowly."""

TOKEN: Final = "token"
"""Unit of token counts, in which ``k`` is 1,024: the 128k context of a model is 131,072 tokens."""
COUNT: Final = "1"
"""Unit of other counts, such as requests, in which ``k`` is 1,000."""

_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RATES: Final = {f"{unit}/s": scale for unit, scale in _BYTES.items()}
_TIMES: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "μs": 10**3, "ns": 1}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_COUNTS: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, **_BINARY}
_TOKENS: Final = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, **_BINARY}
_SCALES: Final[dict[str, dict[str, int]]] = {
    **dict.fromkeys(_TIMES, _TIMES),
    **dict.fromkeys(_RATES, _RATES),
    **dict.fromkeys(_BYTES, _BYTES),
    "W": _COUNTS | {"W": 1, "kW": 10**3, "MW": 10**6},
    "Hz": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "byte": _BYTES | {"byte": 1},
    "byte/s": _RATES | {"byte/s": 1},
}
"""For each unit of stored numbers: accepted units, as multiples of the smallest of them."""


def units_for(unit: str) -> tuple[str, ...]:
    """Return the units that users may write after a number that is stored in ``unit``.

    For example, a time may be given in seconds or milliseconds. The result is () if the number is
    written without a unit, such as a count.
    """
    return tuple(
        input_unit
        for input_unit in _SCALES.get(_unit_without_pe(unit), ())
        if input_unit not in ("byte", "byte/s", *_COUNTS)
    )


def is_time(unit: str) -> bool:
    """Return whether a unit measures time, such as "ms"."""
    return unit in _TIMES


def read_quantity(text: str, unit: str) -> int | float | None:
    """Parse a number with an optional unit, and convert it to ``unit``.

    A number without a unit is assumed to be in ``unit``. Counts accept the prefixes k, M and G,
    which are multiples of 1,000, or of 1,024 for tokens. Ki, Mi and Gi are always multiples of
    1,024. A whole number is returned as an integer. The result is None if the string is invalid.

    Args:
        text: A string such as "96 KiB".
        unit: Unit of the result, such as "byte/PE", "s", `TOKEN` or `COUNT`.

    >>> read_quantity("1.75GHz", "Hz"), read_quantity("96 KiB", "byte/PE")
    (1750000000, 98304)
    >>> read_quantity("200ms", "s")
    0.2
    >>> read_quantity("3", "cycle"), read_quantity("3 MB", "cycle"), read_quantity("5us", "µs")
    (3, None, 5)
    >>> read_quantity("128k", TOKEN), read_quantity("10k", COUNT), read_quantity("48k", "byte")
    (131072, 10000, None)
    """
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    number, input_unit, output_unit = Fraction(match[1].replace("_", "")), match[2], _unit_without_pe(unit)
    if input_unit is None:
        return _number(number)
    scales = _SCALES.get(output_unit, _TOKENS if output_unit == TOKEN else _COUNTS)
    return _number(number * scales[input_unit] / scales.get(output_unit, 1)) if input_unit in scales else None


def has_unit(text: str) -> bool:
    """Return whether a string is a number followed by a unit or a prefix."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST else None
    return match is not None and match[2] is not None


def whole_number(text: str, unit: str = "") -> int | None:
    """Parse an integer, or return None if the string is not one.

    Args:
        text: Fewer than MAX_DIGITS decimal digits, with an optional minus sign.
        unit: TOKEN or COUNT to accept prefixes, such as ``128k`` and ``1.5M``; "" for digits only.

    >>> whole_number("4096"), whole_number("4k")
    (4096, None)
    >>> whole_number("4k", TOKEN), whole_number("1.5k", COUNT)
    (4096, 1500)
    """
    text = text.strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(text) if len(digits) < MAX_DIGITS else None
    number = read_quantity(text, unit) if unit and _PREFIXED.fullmatch(text) else None
    return number if isinstance(number, int) else None


def read_factor(text: str) -> float | None:
    """Parse a positive factor such as ``x2``, ``×0.5`` or ``*2``, or return None.

    >>> read_factor("x2"), read_factor("×0.5"), read_factor("2"), read_factor("x-1")
    (2.0, 0.5, None, None)
    """
    match = _FACTOR.fullmatch(text.strip()) if len(text) <= LONGEST else None
    factor = float(match[1]) if match else 0.0
    return factor if 0 < factor < float("inf") else None


def _unit_without_pe(unit: str) -> str:
    """Return a unit without "/PE", which is not part of the units that users enter."""
    return unit.removesuffix("/PE")


def _number(number: Fraction) -> int | float:
    """Convert a fraction to an int if it is a whole number below 2**53, otherwise to a float."""
    if number.denominator == 1 and abs(number) < 2**53:
        return int(number)
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
