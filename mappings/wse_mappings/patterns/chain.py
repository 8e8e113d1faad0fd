"""Chain reduce: every PE adds its words to the stream from the east and sends the sum west.

A PE needs one fused operation. Two colours alternate by PE parity. Source: Luczynski et al.,
Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.pattern import LineReduce, Pattern, Terms, line_terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def chain(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the messages of a chain reduce along each line of PEs into its first PE.

    Every PE adds its words to the partial sum from its neighbour and sends the result on.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
    """
    senders = range(length - 1, 0, -1)
    messages = [(pe, pe - 1, arrival) for pe in senders]
    return uniform_schedule("chain", length, lines, messages, colours=2, message_colours=[pe % 2 for pe in senders])


def terms(length: int, words: int) -> Terms:
    """Return the cost terms of a chain reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024. Every PE adds its words to its neighbour's
    words, so the depth is P - 1 for P PEs.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
    """
    return line_terms(length, contention=words, energy=words * (length - 1), depth=length - 1)


PATTERN = Pattern(
    name="chain",
    samples={"chain": lambda sizes: line_case("chain", chain(sizes.length, 1, Arrival.ADD), sizes)},
    reduce=LineReduce(label="chain", make=lambda _: chain, terms=lambda length, words, _: terms(length, words)),
)
