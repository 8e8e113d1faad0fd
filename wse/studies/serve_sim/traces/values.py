"""Checks of the values of a trace: numbers of tokens, and times."""

from __future__ import annotations

import math
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.hardware.quantity import whole_number
from wse.studies.serve_sim.traces.lines import TraceLine

MAX_TOKENS: Final = 2**31


def token_count(line: TraceLine, name: str, value: Any, minimum: int = 1) -> int:
    """Convert a value of a trace to a number of tokens.

    Args:
        line: Line of the value, for the error message.
        name: Name of the field, for the error message.
        value: A string or a number.
        minimum: Smallest allowed number.

    Raises:
        BadInput: The value is not a whole number from ``minimum`` to `MAX_TOKENS`.
    """
    tokens = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        tokens = whole_number(value)
    elif isinstance(value, float) and value.is_integer():
        tokens = int(value)
    if tokens is None or not minimum <= tokens <= MAX_TOKENS:
        raise BadInput(f"{line.place}: {name} {short_repr(value)}: give a whole number of at least {minimum}")
    return tokens


def seconds_of(line: TraceLine, name: str, value: Any, unit_s: float = 1.0) -> float:
    """Convert a time in a trace to seconds.

    Args:
        line: Line of the value, for the error message.
        name: Name of the field, for the error message.
        value: A string or a number.
        unit_s: Duration of the unit of ``value`` in seconds, such as 1e-3 for milliseconds.

    Raises:
        BadInput: The value is not a finite number.
    """
    time = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            time = float(value)
        except (ValueError, OverflowError):
            time = math.nan
    if not math.isfinite(time):
        raise BadInput(f"{line.place}: {name} {short_repr(value)}: give a number")
    return time * unit_s
