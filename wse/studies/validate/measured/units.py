"""Units in the column ``metric`` of measurements."""

from __future__ import annotations

import re
from typing import Final

from wse.errors import BadMeasurements

_UNIT: Final = re.compile(
    r"cycles?|[mµun]?s|seconds?|[kmg]?hz|[mgtp]?flops?|[kmgtp]?i?b|[mgtp]bps|bits?|[mgtp]bit|bytes?|[km]?w|watts?|j|joules?"
    r"|tok|tokens?|usd|percent|%|x|ratio|speedup|gain|growth|fraction|efficiency|slowdown|(under)?utilisation"
    r"|exponent|coefficient|elements?|wavelets?|words?|hops?|turns?|steps?|cores?|chips?|nodes?|wafers?|degree|length"
)
"""Lower-case words that name a unit or a count. Every metric contains at least one such word."""

_CYCLES: Final = re.compile(r"(mean_|max_|min_|median_)?cycles( \((median|mean|max|min)( over PEs)?\))?")


def check_unit(metric: str, place: str) -> None:
    """Check that a metric such as ``tokens_per_s`` contains the name of a unit.

    Args:
        metric: Text of the column ``metric``.
        place: File, line and column, for the error message.

    Raises:
        BadMeasurements: The metric contains no known unit.
    """
    if not any(_UNIT.fullmatch(word) for word in re.findall(r"[^\W\d_]+|%", metric.lower())):
        examples = "cycles, us, ms, tokens_per_s, elements/cycle, speedup, %"
        msg = f"{place} = {metric[:40]!r}: names no known unit; give one such as {examples}"
        raise BadMeasurements(msg)


_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def convert_cycles(metric: str, cycles: float, clock_hz: float) -> float | None:
    """Convert the duration of a whole timed run from cycles to the unit of a metric.

    Args:
        metric: Text of the column ``metric`` of a measurement.
        cycles: Duration in cycles.
        clock_hz: Clock frequency of the wafer.

    Returns:
        The duration in cycles or in the metric's time unit; None if the metric has neither unit.

    >>> convert_cycles("us", 850, 850e6), convert_cycles("mean_cycles", 850, 850e6)
    (1.0, 850)
    >>> convert_cycles("cycles per hop", 1, 850e6) is None
    True
    """
    if is_cycles(metric):
        return cycles
    unit = _SECONDS.get(metric.strip())
    return None if unit is None else cycles / clock_hz / unit


def is_cycles(metric: str) -> bool:
    """Return whether a metric is the duration of a whole timed run in cycles.

    Means, medians, minima and maxima over PEs or repetitions count too. Rates such as cycles per
    hop do not.

    >>> is_cycles("mean_cycles"), is_cycles("cycles (median)"), is_cycles("cycles per hop")
    (True, True, False)
    """
    return _CYCLES.fullmatch(metric.strip()) is not None
