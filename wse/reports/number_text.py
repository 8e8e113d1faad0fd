"""Text of numbers with units: counts, percentages, ranges, bytes, times and rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def count(number: float) -> str:
    """Format a number, with commas between thousands.

    Integers and numbers of at least 100 have no decimals. Other numbers have one decimal if they
    are at least 1, and two significant digits if they are smaller.
    """
    if number == int(number) or abs(number) >= 100:
        return f"{round(number):,}"
    return f"{number:,.1f}" if abs(number) >= 1 else f"{number:.2g}"


def short_number(number: float) -> str:
    """Return a number of at least 0 with three significant digits and a suffix k, M, G or T.

    Numbers below 1,000 are rounded to whole numbers.

    >>> short_number(0), short_number(12.34), short_number(1508), short_number(2282548)
    ('0', '12', '1.51k', '2.28M')
    """
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale * 0.9995:
            return f"{_three_digits(number / scale)}{unit}"
    return f"{number:.0f}"


def _three_digits(number: float) -> str:
    """Format a number of at least 0.9995, or its negative, with three digits or all integer digits."""
    decimals = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:,.{decimals}f}"


def three_figures(number: float) -> str:
    """Return a number with three significant digits, or with all digits before the decimal point.

    Large numbers are not written as powers of ten.

    >>> three_figures(1.2345), three_figures(96.84), three_figures(999.6), three_figures(1938.2)
    ('1.23', '96.8', '1,000', '1,938')
    """
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def ranged(value: float, low: float, high: float, text: Callable[[float], str] = count, unit: str = "") -> str:
    """Return a value with its range, or the value alone if both ends of the range equal it.

    Args:
        value: The value.
        low: Low end of the range.
        high: High end of the range.
        text: Function that formats a number.
        unit: Unit, printed after the value.

    >>> ranged(64.45, 41.96, 99, "{:g}".format, " USD"), ranged(60, 60, 60)
    ('64.45 USD (41.96 to 99)', '60')
    """
    ends = range_text(low, high, text)
    return f"{text(value)}{unit}{ends and f' ({ends})'}"


def words_with_and(words: Sequence[str]) -> str:
    """Join words as in "4, 8 and 16".

    >>> words_with_and(["4", "8", "16"])
    '4, 8 and 16'
    """
    *first_words, last_word = words
    return f"{', '.join(first_words)} and {last_word}" if first_words else last_word


def range_text(low: float | None, high: float | None, formatter: Callable[[float], str]) -> str:
    """Format a range, or return "" if both ends are equal or the range is unknown.

    Args:
        low: Low end of the range; None if unknown.
        high: High end of the range; None if unknown.
        formatter: Function that formats a number.

    >>> range_text(41.96, 99, "{:g}".format), range_text(60, 60, "{:g}".format)
    ('41.96 to 99', '')
    """
    return "" if low is None or high is None or low == high else f"{formatter(low)} to {formatter(high)}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Format ascending integers. Three or more consecutive numbers become a range.

    >>> number_ranges([0, 1, 2, 3, 5, 6, 9])
    '0–3, 5, 6, 9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def percent(fraction: float) -> str:
    """Format a fraction as a percentage with one decimal; "<0.1 %" between 0 and 0.1 %."""
    if 0 < fraction < 0.001:
        return "<0.1 %"
    return f"{fraction:.1%}".replace("%", " %")


def in_bytes(number: float) -> str:
    """Return a byte count with a suitable decimal unit, such as "1.5 GB"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(number) >= scale * 0.9995:
            return f"{_three_digits(number / scale)} {unit}"
    return f"{count(number)} B"


def seconds(number: float) -> str:
    """Return a time in seconds with a suitable unit, from ns to s."""
    if not number:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if number * scale >= 1:
            return f"{three_figures(number * scale)} {unit}"
    return f"{number * 1e9:.3g} ns"


def rate_and_latency(bytes_per_s: float, latency_s: float | None = None, *, joint: str = " ") -> str:
    """Format the bandwidth of a link, with its latency if known.

    Args:
        bytes_per_s: Bandwidth.
        latency_s: Latency in seconds, or None if it is unknown.
        joint: Text between bandwidth and latency.

    >>> rate_and_latency(8e9), rate_and_latency(150e9, 5e-7, joint=" and ")
    ('8 GB/s', '150 GB/s and 500 ns')
    """
    rate = f"{bytes_per_s / 1e9:g} GB/s"
    return rate if latency_s is None else f"{rate}{joint}{seconds(latency_s)}"


def hertz(number: float) -> str:
    """Format a frequency in GHz or MHz."""
    return f"{number / 1e9:g} GHz" if number >= 1e9 else f"{number / 1e6:g} MHz"


def plural(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural, such as ``1 wafer`` or ``2 wafers``.

    The plural is formed by adding "s".
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def index_range(first: int, last: int) -> str:
    """Format a range of indices, such as rows. A range of one index is written as that index.

    >>> index_range(3, 3), index_range(0, 79)
    ('3', '0–79')
    """
    return str(first) if first == last else f"{first}–{last}"
