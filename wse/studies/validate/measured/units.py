"""The units in the metrics of the files: what a metric counts, and when it is cycles of a window."""

from __future__ import annotations

import re
from typing import Final

from wse.errors import BadMeasurements

_UNIT: Final = re.compile(
    r"cycles?|[mµun]?s|seconds?|[kmg]?hz|[mgtp]?flops?|[kmgtp]?i?b|[mgtp]bps|bits?|[mgtp]bit|bytes?|[km]?w|watts?|j|joules?"
    r"|tok|tokens?|usd|percent|%|x|ratio|speedup|gain|growth|fraction|efficiency|slowdown|(under)?utilisation"
    r"|exponent|coefficient|elements?|wavelets?|words?|hops?|turns?|steps?|cores?|chips?|nodes?|wafers?|degree|length"
)
"""A word that names a unit or a count, in lower case. A metric has one of them at least."""

_CYCLES: Final = re.compile(r"(mean_|max_|min_|median_)?cycles( \((median|mean|max|min)( over PEs)?\))?")


def check_unit(metric: str, place: str) -> None:
    """Refuse a metric of which no word names a unit.

    Raises:
        BadMeasurements: with ``place``.
    """
    if not any(_UNIT.fullmatch(word) for word in re.findall(r"[^\W\d_]+|%", metric.lower())):
        examples = "cycles, us, ms, tokens_per_s, elements/cycle, speedup, %"
        msg = f"{place} = {metric[:40]!r}: names no unit that is known; give one such as {examples}"
        raise BadMeasurements(msg)


_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def of_cycles(metric: str, cycles: float, clock_hz: float) -> float | None:
    """Return the cycles of a whole window in the unit of a metric; None where the metric is neither cycles nor a time.

    >>> of_cycles("us", 850, 850e6), of_cycles("mean_cycles", 850, 850e6), of_cycles("cycles per hop", 1, 1)
    (1.0, 850, None)
    """
    if is_cycles(metric):
        return cycles
    unit = _SECONDS.get(metric.strip())
    return None if unit is None else cycles / clock_hz / unit


def is_cycles(metric: str) -> bool:
    """Return whether the metric is the cycles of the row's whole window, over PEs or repeats in whatever way.

    >>> is_cycles("mean_cycles"), is_cycles("cycles (median)"), is_cycles("cycles per hop")
    (True, True, False)
    """
    return _CYCLES.fullmatch(metric.strip()) is not None
