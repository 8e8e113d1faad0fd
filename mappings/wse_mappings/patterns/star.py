"""Star reduce: PE 0 adds the words of all PEs sequentially, starting with the nearest.

After sending its own words, a PE passes on the words of the PEs behind it. One colour with two
switch positions is used. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024,
arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.pattern import LineReduce, Pattern, Terms, line_terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def star(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the messages of a star reduce along each line of PEs into its first PE.

    The first PE adds the words of all other PEs sequentially, starting with the nearest PE.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
    """
    messages = [(pe, 0, arrival) for pe in range(1, length)]
    return uniform_schedule("star", length, lines, messages, colours=1, message_colours=[0] * len(messages))


def terms(length: int, words: int) -> Terms:
    """Return the cost terms of a star reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024. All PEs send to the root sequentially, so the
    depth is 1 and the root receives all words.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
    """
    energy = words * length * (length - 1) / 2
    return line_terms(length, contention=words * (length - 1), energy=energy, depth=1)


def _published_cycles(length: int, words: int, level_cycles: int) -> float:
    """Return the cycle count of a star reduce by the published formula.

    The formula has no terms for link load and distance, because the words of the nearest PE arrive
    first and the words of the other PEs follow without a pause.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
        level_cycles: Cycles per relay (a PE that adds words and sends the sum on).
    """
    return words * (length - 1) + level_cycles


PATTERN = Pattern(
    name="star",
    samples={"star": lambda sizes: line_case("star", star(sizes.length, 1, Arrival.ADD), sizes)},
    reduce=LineReduce(
        label="star",
        make=lambda _: star,
        terms=lambda length, words, _: terms(length, words),
        published_cycles=_published_cycles,
    ),
)
