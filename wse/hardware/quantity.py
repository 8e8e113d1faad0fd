"""Numbers with units as people write them: ``1.75GHz``, ``96KiB``, ``200ms``, and factors such as ``x2``."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_QUANTITY: Final = re.compile(rf"({_NUMBER})\s*([A-Za-zµμ][A-Za-z/µμ]*)?")
_FACTOR: Final = re.compile(rf"[x×*]\s*({_NUMBER})")
LONGEST: Final = 40
"""Characters of a quantity; more are a slip."""

_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SCALES: Final[dict[str, dict[str, float]]] = {
    "s": {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9},
    "Hz": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "byte": {**_BYTES},
    "byte/s": {f"{unit}/s": scale for unit, scale in _BYTES.items()},
}
"""By the unit that numbers are kept in, others that they may be given in."""


def units_for(unit: str) -> tuple[str, ...]:
    """The units in which a number that is kept in ``unit`` may be given; none where it stands alone."""
    return tuple(_SCALES.get(_counted(unit), ()))


def read_quantity(text: str, unit: str) -> int | float | None:
    """The number, in ``unit``, of a text in that or another unit of its kind; None where it is none.

    A whole number stays one, so that what counts can be told from what is measured.

    >>> read_quantity("1.75GHz", "Hz"), read_quantity("96 KiB", "byte/PE"), read_quantity("200ms", "s")
    (1750000000, 98304, 0.2)
    >>> read_quantity("3", "cycle"), read_quantity("3 MB", "cycle")
    (3, None)
    """
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    number, given = _whole(float(match[1])), match[2]
    if given is None:
        return number
    scale = _SCALES.get(_counted(unit), {}).get(given)
    if scale is None:
        return None
    return _whole(number * scale) if scale >= 1 else number / round(1 / scale)


def read_factor(text: str) -> float | None:
    """The factor of ``x2``, ``×0.5`` or ``*2``; None where a text is none, or it is not above 0.

    >>> read_factor("x2"), read_factor("×0.5"), read_factor("2"), read_factor("x-1")
    (2.0, 0.5, None, None)
    """
    match = _FACTOR.fullmatch(text.strip()) if len(text) <= LONGEST else None
    factor = float(match[1]) if match else 0.0
    return factor if 0 < factor < float("inf") else None


def _counted(unit: str) -> str:
    """A unit without whose it is: bytes of a PE are bytes."""
    return unit.removesuffix("/PE")


def _whole(number: float) -> int | float:
    """A number as an integer where it is a whole one that floats have exactly."""
    return int(number) if abs(number) < 2**53 and number == int(number) else number
