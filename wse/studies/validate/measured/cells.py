"""Readers of the cells of a CSV file of measurements: sizes and published values."""

from __future__ import annotations

import math
import re
from typing import Final

from wse.errors import BadMeasurements

LARGEST: Final[dict[str, int]] = {
    "grid_w": 4_096,
    "grid_h": 4_096,
    "vector_len_bytes": 2**30,
    "M": 10**7,
    "N": 10**7,
    "K": 10**7,
    "seq_in": 10**7,
    "seq_out": 10**7,
    "batch": 10**6,
}
"""Integer columns and their maximum values. A larger number is rejected as a mistake: no wafer has
4,096 PEs in a row."""

_SLIP: Final = re.compile(r"\s*([0-9][0-9_.,]*|0x\w*)\s*", re.IGNORECASE)
"""Numbers in an unsupported notation, such as ``1,5``, ``1_000`` and ``0x10``."""


def product_sizes(cell: str, place: str) -> dict[str, int]:
    """Parse the matrix sizes M, N and K from a cell such as ``768,64,768``, keyed by letter.

    Individual sizes may be empty. A text with letters, such as ``4096 tokens``, contains no sizes.

    Args:
        cell: Text of the cell.
        place: File and line, for error messages.

    Raises:
        BadMeasurements: The cell does not have three parts, or a size is invalid.
    """
    parts = [part.strip() for part in cell.split(",")]
    if len(parts) != 3:
        if not cell.strip() or any(c.isalpha() for c in cell):
            return {}
        msg = f"{place}: column M,N,K = {_quote(cell)}: not three sizes; give them as M,N,K, empty where not known"
        raise BadMeasurements(msg)
    sizes = {name: read_size(part, name, f"{place}: column M,N,K") for name, part in zip("MNK", parts, strict=True)}
    return {name: number for name, number in sizes.items() if number is not None}


def read_size(cell: str, column: str, place: str) -> int | None:
    """Parse the integer in a cell, or return None if the cell is empty.

    Args:
        cell: Text of the cell.
        column: Name of the column or size, a key of `LARGEST`.
        place: File, line and column, for error messages.

    Raises:
        BadMeasurements: The number is not between 1 and the maximum in `LARGEST`.
    """
    if not cell.strip():
        return None
    number = _number(cell)
    max_size = LARGEST[column]
    if number is None or number != number or number in (math.inf, -math.inf) or number != int(number):
        msg = f"{place} = {_quote(cell)}: not a whole number; give one from 1 to {max_size:,}, or leave the cell empty"
        raise BadMeasurements(msg)
    if not 1 <= number <= max_size:
        msg = f"{place} = {_quote(cell)}: give a whole number from 1 to {max_size:,}, or leave the cell empty"
        raise BadMeasurements(msg)
    return int(number)


def read_value(cell: str, place: str) -> float | None:
    """Parse the published number in a cell, or return None for a range or a formula.

    For example, ``10-20`` is a range, and ``2+2*ceil(n/8)`` is a formula.

    Raises:
        BadMeasurements: The cell contains no number, or the number is negative, infinite or in an
            unsupported notation.
    """
    number = _number(cell)
    if number is None and re.match(r"\s*[<>≤≥~≈]?\s*[0-9]", cell) and not _SLIP.fullmatch(cell):
        return None
    if number is None:
        msg = f"{place}: column value = {_quote(cell)}: not a number; give one such as 12.5, or a range such as 10-20"
        raise BadMeasurements(msg)
    if not math.isfinite(number) or number < 0:
        msg = f"{place}: column value = {_quote(cell)}: give a finite number that is not negative, or remove the row"
        raise BadMeasurements(msg)
    return number


def _number(cell: str) -> float | None:
    """Convert a text to a number, or return None if it is not a number or contains underscores."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _quote(cell: str) -> str:
    """Quote the text of a cell for an error message, shortened to 40 characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
