"""Cache shift: the last rows of a region concurrently send their oldest KV-cache entry one row up.

Two colours alternate by row parity. Source: He et al., WaferLLM, OSDI 2025, section on the KV
cache.
"""

from __future__ import annotations

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

COLOURS = 2  # neighbours alternate by parity


def cache_shift(length: int, lines: int, passing: int) -> LineSchedule:
    """Return the messages that move a KV-cache entry from each of a column's last PEs one row up.

    This cache shift frees a cache slot on the last row for the entry of a new token.

    Args:
        length: Number of PEs in a column.
        lines: Number of columns.
        passing: Number of sending PEs, which are the last PEs of the column.
    """
    senders = range(length - passing, length)
    messages = [(row, row - 1, Arrival.REPLACE) for row in senders]
    return uniform_schedule(
        "cache_shift", length, lines, messages, colours=COLOURS, message_colours=[row % COLOURS for row in senders]
    )


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a KV-cache shift in which a random number of rows send.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the column and the number of words.
    """
    passing = 1 + sizes.number_below(sizes.length - 1)
    return line_case("cache_shift", cache_shift(sizes.length, 1, passing), sizes, f"{passing} pass")


PATTERN = Pattern(name="cache_shift", samples={"cache_shift": _sample})
