"""Two-phase reduce: chains inside groups of neighbours, then a chain of the group heads to PE 0.

Groups are numbered from the east end, and the westernmost group may be smaller. Two colours
alternate by parity inside a group and are swapped from group to group. After sending its own words,
a PE passes on the words of the second phase on the same colour. Source: Luczynski et al.,
Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from wse_mappings.patterns.pattern import LineReduce, Pattern, Reduce, Terms, line_terms
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def two_phase(length: int, lines: int, arrival: Arrival, group: int | None = None) -> LineSchedule:
    """Return the messages of a two-phase reduce along each line of PEs into its first PE.

    Chains add up the words within groups of neighbouring PEs. Another chain then adds up the sums
    of the groups.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        group: Number of PEs per group; None for the rounded square root of ``length``.
    """
    group = group or max(1, round(math.sqrt(length)))
    messages: list[tuple[int, int, Arrival]] = []
    message_colours: list[int] = []
    heads: list[int] = []  # from east to west
    for number, east in enumerate(range(length - 1, -1, -group)):
        head = max(east - group + 1, 0)
        # The east end of a group sends on the colour that later passes the words of the previous head.
        first = _head_colour(number - 1, group) if number else 0
        messages += [(pe, pe - 1, arrival) for pe in range(east, head, -1)]
        message_colours += [(first + east - pe) % 2 for pe in range(east, head, -1)]
        heads.append(head)
    messages += [(source, target, arrival) for source, target in pairwise(heads)]
    message_colours += [_head_colour(number, group) for number in range(len(heads) - 1)]
    return uniform_schedule("two_phase", length, lines, messages, colours=2, message_colours=message_colours)


def _head_colour(number: int, group: int) -> int:
    """Return the colour on which the first PE of a group sends the group's sum.

    Groups are counted from the end of the line, and neighbouring groups use different colours.

    Args:
        number: Index of the group.
        group: Number of PEs per group.
    """
    return (group - 1 + number) % 2


def terms(length: int, words: int, group: float | None = None) -> Terms:
    """Return the cost terms of a two-phase reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
        group: Number of PEs per group; None for the unrounded square root of ``length``.
    """
    size = group or math.sqrt(length)
    groups = length / size
    energy = words * (length - groups) + words * (length - size)
    return line_terms(length, contention=2 * words, energy=energy, depth=size + groups - 2)


def _in_groups(size: int) -> Reduce:
    """Return the two-phase reduce with groups of ``size`` PEs."""
    return partial(two_phase, group=size)


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a two-phase reduce with a random group size.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    group = 1 + sizes.number_below(sizes.length)
    schedule = two_phase(sizes.length, 1, Arrival.ADD, group)
    return line_case("two_phase", schedule, sizes, f"groups of {group}")


PATTERN = Pattern(
    name="two_phase",
    samples={"two_phase": _sample},
    reduce=LineReduce(
        label="two-phase in groups of {}",
        make=_in_groups,
        authors_number=lambda length, _words, _level: max(1, round(math.sqrt(length))),
        terms=lambda length, words, _: terms(length, words),
    ),
)
