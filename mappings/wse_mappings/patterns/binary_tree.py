"""Binary tree reduce: at each level, every second remaining PE receives its neighbour's sum.

At level i, the PE at a multiple of 2^(i+1) receives from the PE 2^i places east of it. The parity
of the number of one bits in the sender's index selects one of two colours. After sending its own
words, a PE passes on the words of other PEs. Source: Luczynski et al., Near-Optimal Wafer-Scale
Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

import math

from wse_mappings.patterns.pattern import LineReduce, Pattern, Terms, line_terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def binary_tree(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the messages of a binary tree reduce along each line of PEs into its first PE.

    At each level, every second remaining PE adds the sum of the next remaining PE to its own sum.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
    """
    messages: list[tuple[int, int, Arrival]] = []
    step = 1
    while step < length:
        messages += [(pe + step, pe, arrival) for pe in range(0, length - step, 2 * step)]
        step *= 2
    message_colours = [source.bit_count() % 2 for source, _, _ in messages]
    return uniform_schedule("binary_tree", length, lines, messages, colours=2, message_colours=message_colours)


def terms(length: int, words: int) -> Terms:
    """Return the cost terms of a binary tree reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024. Its formulas are published for lengths that
    are powers of two. For other lengths, the logarithm in them is not rounded.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
    """
    levels = math.log2(length)
    return line_terms(length, contention=words * levels, energy=words * length * levels / 2, depth=levels)


PATTERN = Pattern(
    name="binary_tree",
    samples={"binary_tree": lambda sizes: line_case("binary_tree", binary_tree(sizes.length, 1, Arrival.ADD), sizes)},
    reduce=LineReduce(
        label="binary tree", make=lambda _: binary_tree, terms=lambda length, words, _: terms(length, words)
    ),
)
