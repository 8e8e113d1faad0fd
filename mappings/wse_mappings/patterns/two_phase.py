"""Two-phase reduce: a chain inside each group of S neighbours, then a chain of the groups' heads, to PE 0.

Groups are counted from the east end; the western one may be short. Two colours alternate by parity inside a group and
flip between groups, so that a PE that has sent becomes a wire for the second phase on the colour that it used. Source:
Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from wse_mappings.patterns.pattern import LineReduce, Pattern, Reduce, Terms, line_terms
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def two_phase(length: int, lines: int, arrival: Arrival, group: int | None = None) -> LineSchedule:
    """Return the two-phase reduce of ``arrival`` (ADD, MAX or ARGMAX) over lines of ``length`` PEs into PE 0.

    Args:
        length: PEs in a line.
        lines: Lines that do the same.
        arrival: How two operands combine.
        group: PEs in a group; the rounded square root of ``length`` without it.
    """
    group = group or max(1, round(math.sqrt(length)))
    messages: list[tuple[int, int, Arrival]] = []
    message_colours: list[int] = []
    heads: list[int] = []  # from the east
    for number, east in enumerate(range(length - 1, -1, -group)):
        head = max(east - group + 1, 0)
        # The east end of a group sends on the colour that will pass words of the head before it.
        first = _head_colour(number - 1, group) if number else 0
        messages += [(pe, pe - 1, arrival) for pe in range(east, head, -1)]
        message_colours += [(first + east - pe) % 2 for pe in range(east, head, -1)]
        heads.append(head)
    messages += [(source, target, arrival) for source, target in pairwise(heads)]
    message_colours += [_head_colour(number, group) for number in range(len(heads) - 1)]
    return uniform_schedule("two_phase", length, lines, messages, colours=2, message_colours=message_colours)


def _head_colour(number: int, group: int) -> int:
    """Return the colour on which the head of a group sends."""
    return (group - 1 + number) % 2


def terms(length: int, words: int, group: float | None = None) -> Terms:
    """Return the terms of chains in groups followed by a chain of their heads.

    Groups are of the square root of the line, not rounded, where ``group`` does not say their size.
    """
    size = group or math.sqrt(length)
    groups = length / size
    energy = words * (length - groups) + words * (length - size)
    return line_terms(length, contention=2 * words, energy=energy, depth=size + groups - 2)


def _in_groups(size: int) -> Reduce:
    return partial(two_phase, group=size)


def _sample(sizes: Sizes) -> Case:
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
