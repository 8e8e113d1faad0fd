"""Parse numbers and units in the cells of measurements, and recognise names in their text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadMeasurements
from wse.files import read_toml

LARGEST_NUMBER: Final = 10**12
"""Largest number that is read from a string. No size or time of a run exceeds it."""

_NUMBER: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+(\.[0-9]+)?|\.[0-9]+")


def read_number(text: str | None) -> float | None:
    """Convert a string to a number, or return None if it is not a number up to `LARGEST_NUMBER`.

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
    """Convert a string to an integer, or return None if it is not one up to `LARGEST_NUMBER`.

    >>> read_whole("8192,"), read_whole("1.5")
    (8192, None)
    """
    value = read_number(text)
    return int(value) if value is not None and value == int(value) else None


def whole_in(pattern: re.Pattern[str], *texts: str) -> int | None:
    """Return the integer that a pattern captures in the first text in which it occurs.

    The result is None if the pattern does not occur, or if the captured text is not an integer up
    to `LARGEST_NUMBER`.

    Args:
        pattern: The pattern. If it has several groups, those that take no part in the match are
            ignored.
        texts: The texts, in the order in which they are searched.

    >>> whole_in(re.compile("at distance ([0-9]+)"), "64 words", "64 words at distance 2")
    2
    """
    match = next((match for text in texts if (match := pattern.search(text))), None)
    return None if match is None else read_whole(next((group for group in match.groups() if group), None))


_UNIT: Final = re.compile(
    r"cycles?|[mµun]?s|seconds?|[kmg]?hz|[mgtp]?flops?|[kmgtp]?i?b|[mgtp]bps|bits?|[mgtp]bit|bytes?|[km]?w|watts?|j|joules?"
    r"|tok|tokens?|usd|percent|%|x|ratio|speedup|gain|growth|fraction|efficiency|slowdown|(under)?utilisation"
    r"|exponent|coefficient|elements?|wavelets?|words?|hops?|turns?|steps?|cores?|chips?|nodes?|wafers?|degree|length"
)
"""Lower-case words that name a unit or a count. Every metric contains at least one such word."""

_TIMED_CYCLES: Final = re.compile(r"(mean_|max_|min_|median_)?cycles( \((median|mean|max|min)( over PEs)?\))?")


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
        raise BadMeasurements(f"{place} = {metric[:40]!r}: names no known unit; give one such as {examples}")


SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


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
    unit = SECONDS.get(metric.strip())
    return None if unit is None else cycles / clock_hz / unit


def is_cycles(metric: str) -> bool:
    """Return whether a metric is the duration of a whole timed run in cycles.

    Means, medians, minima and maxima over PEs or repetitions count too. Rates such as cycles per
    hop do not.

    >>> is_cycles("mean_cycles"), is_cycles("cycles (median)"), is_cycles("cycles per hop")
    (True, True, False)
    """
    return _TIMED_CYCLES.fullmatch(metric.strip()) is not None


WORDS_FILE: Final = Path(__file__).parents[3] / "data" / "measurement_words.toml"


@cache
def _sections() -> dict[str, Any]:
    return read_toml(WORDS_FILE, BadMeasurements)


@cache
def rows_of(section: str) -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    """Return the patterns in a section of `WORDS_FILE`, each with its row, in order."""
    return tuple((re.compile(row["words"]), row) for row in _sections()[section])


def row_in(section: str, text: str) -> Mapping[str, Any] | None:
    """Return the first row of a section whose pattern occurs in a text, or None."""
    return next((row for pattern, row in rows_of(section) if pattern.search(text)), None)


def name_in(section: str, text: str) -> str | None:
    """Return the name in the first row of a section whose pattern occurs in a text, or None."""
    row = row_in(section, text)
    return None if row is None else row["name"]
