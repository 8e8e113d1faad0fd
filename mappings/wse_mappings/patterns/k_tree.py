"""K-tree reduce and all-reduce with any number of levels, over whole lines or segments of lines.

In each level, the remaining PEs are divided into groups. In each group, two chains of sums run from
the ends to the PE in the middle. These middle PEs are the remaining PEs of the next level; between
them, words pass only through routers. In the last level, all remaining PEs form one group, whose
middle PE is the root. In an all-reduce, the root then multicasts the sum in both directions.

With one level, this is the two-way chain to the centre; with two levels, it is MeshGEMV's tree.
Source: He et al., WaferLLM, OSDI 2025, MeshGEMV.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import pairwise

from wse_mappings.cuts.split import balanced_segments
from wse_mappings.patterns.pattern import LineCollective, Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival, LineSchedule, outward_multicasts, uniform_schedule

Message = tuple[int, int, Arrival]
Groups = tuple[int, ...] | None
"""Number of groups per level, except the last; None for two levels with ``group_count`` groups."""

FEWEST_RELAYS, EQUAL_GROUPS = 0, -1
"""Rules for the number of groups if it is not specified: `group_count` and `equal_group_count`."""

COLOURS_PER_LEVEL = 4  # two directions, each alternating between two colours
COLOURS_OF_BROADCAST = 2
SHARED_COLOURS_PER_LEVEL, SHARED_COLOURS_OF_BROADCAST = 2, 1


def group_count(length: int) -> int:
    """Return the number of groups with which a two-level K-tree has the fewest relays in sequence.

    A K-tree sums words within groups of PEs, then among the groups. For G groups of g PEs, the
    longest path has floor(g / 2) + floor(G / 2) relays (PEs that add words and send the sum on). If
    several numbers of groups are equally good, the smallest is returned.

    >>> group_count(16), group_count(1)
    (3, 1)
    """
    limit = min(length, 2 * math.isqrt(length) + 2)
    return min(range(1, limit + 1), key=lambda groups: (relays_of(length, (groups,)), groups))


def relays_of(count: int, groups: Groups = None) -> int:
    """Return the number of relays on the longest path to the root of a K-tree.

    A K-tree sums words within groups of PEs, then among the groups. Each message on the path waits
    for the previous one and counts as one relay.

    Args:
        count: Number of PEs.
        groups: Number of groups per level, except the last; None for two levels with
            ``group_count`` groups.

    >>> relays_of(64, ()), relays_of(64, (8,)), relays_of(64, (16, 4))
    (32, 8, 6)
    """
    relays = 0
    for group_count in (*_groups_of(count, groups), 1):
        places = min(group_count, count)
        relays += ceil_div(count, places) // 2
        count = places
    return relays


def equal_group_count(length: int) -> int:
    """Return the number of groups for a K-tree whose groups have equal sizes.

    It is the divisor of ``length`` nearest to the square root of ``length``; of two equally near
    divisors, the smaller. If no divisor is between half and twice the root, it is the rounded root,
    and group sizes differ by one. The released WaferLLM configurations follow this rule for 10 of
    their 11 lengths; for 512 they use 32 groups.

    >>> [equal_group_count(length) for length in (240, 256, 300, 360, 420, 480, 540, 600, 660, 720)]
    [15, 16, 15, 18, 20, 20, 20, 24, 22, 24]
    >>> equal_group_count(421), equal_group_count(1)
    (21, 1)
    """
    root = math.sqrt(length)
    divisors = [n for n in range(1, length + 1) if length % n == 0 and root / 2 <= n <= 2 * root]
    return min(divisors or [round(root)], key=lambda groups: (abs(groups - root), groups))


def k_tree(
    length: int,
    lines: int,
    arrival: Arrival,
    *,
    broadcast: bool,
    segments: tuple[tuple[int, int], ...] = (),
    groups: Groups = None,
    shared_colours: bool = False,
    to_all: bool = False,
) -> LineSchedule:
    """Return a K-tree reduce or all-reduce over each segment of lines of ``length`` PEs.

    For each segment:

    1. In each level, divide the remaining PEs into groups; in the last level, into a single group.
    2. In each group, two chains sum the words from both ends toward the PE in the middle. The
       middle PEs are the remaining PEs of the next level.
    3. If ``broadcast`` is True, multicast in both directions from the root, which is the PE that
       remains after the last level.

    The root of a segment is ``root_of(segment length, groups)`` PEs from its start. A level uses
    four colours: each of its two directions alternates between two colours. The multicast uses two,
    so the total for K levels is 4 K + 2, which gives the published 10 for K = 2. With
    ``shared_colours``, the total is 2 K + 1. This is possible because no PE sends in both
    directions in a level, and because a router can forward one colour in both directions.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        broadcast: Whether every PE gets the result (all-reduce) or only the root (reduce).
        segments: (start, length) of independent segments; the whole line if empty. A short segment
            is divided into at most as many groups as it has PEs.
        groups: Number of groups in each level except the last: K - 1 numbers for K levels. None for
            two levels with the fewest relays.
        shared_colours: Whether both directions of a level share its colours, as do both directions
            of the multicast.
        to_all: With ``broadcast``, whether the result of the only segment goes to all PEs of the
            line.

    Raises:
        ValueError: A number of groups is below 1 or, on the whole line, above the number of PEs
            that its level divides.
    """
    _check(length, groups, is_whole_line=not segments)
    line_segments = segments or ((0, length),)
    messages_by_length = {count: _messages(count, arrival, groups) for _, count in line_segments}
    messages = []
    for start, count in line_segments:
        messages += [(start + a, start + b, message_arrival) for a, b, message_arrival in messages_by_length[count]]
        first, end = (0, length) if to_all else (start, start + count)
        messages += outward_multicasts(start + root_of(count, groups), first, end) if broadcast else []  # 3
    name = "all_reduce" if broadcast else "reduce"
    depth = 2 if groups is None else len(groups) + 1
    level_colours, broadcast_colours = (
        (SHARED_COLOURS_PER_LEVEL, SHARED_COLOURS_OF_BROADCAST)
        if shared_colours
        else (COLOURS_PER_LEVEL, COLOURS_OF_BROADCAST)
    )
    colours = level_colours * depth + broadcast_colours * broadcast
    return uniform_schedule(name, length, lines, messages, colours)


def _messages(count: int, arrival: Arrival, groups: Groups) -> list[Message]:
    """Return the messages that reduce the first ``count`` PEs of a line with a K-tree.

    In each level of the tree, PEs are divided into groups, and each group is reduced to its middle
    PE. These middle PEs are the PEs of the next level, whose last one has a single group.

    Args:
        count: Number of PEs.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        groups: Number of groups in each level except the last; None for two levels with the fewest
            relays.
    """
    levels = _levels(count, groups)  # 1
    # 2. Chains toward the middles.
    return [message for level in levels for group in level for message in _inward_chains(group, arrival)]


@lru_cache(maxsize=1024)
def root_of(count: int, groups: Groups = None) -> int:
    """Return the index of the PE on which a K-tree computes the sum of all PEs of a line.

    Args:
        count: Number of PEs.
        groups: Number of groups in each level except the last; None for two levels with the fewest
            relays.
    """
    return _middle(_levels(count, groups)[-1][0])


def _middle(group: list[int]) -> int:
    """Return the middle PE of a group, on which the sum of the group is computed."""
    return group[len(group) // 2]


def _groups_of(count: int, groups: Groups) -> tuple[int, ...]:
    """Return the number of groups in each level of a K-tree except the last.

    A K-tree sums words within groups of PEs, then among the groups, level by level.

    Args:
        count: Number of PEs.
        groups: Number of groups in each level except the last; None for two levels with the fewest
            relays.
    """
    return (group_count(count),) if groups is None else groups


def _check(length: int, groups: Groups, *, is_whole_line: bool) -> None:
    """Check that the number of groups in every level of a K-tree is possible.

    Args:
        length: Number of PEs in the line.
        groups: Number of groups in each level except the last, or None.
        is_whole_line: Whether the tree covers a whole line. If so, a level must not have more
            groups than the PEs that it divides.

    Raises:
        ValueError: A level has no groups, or too many for a whole line.
    """
    for level, (places, group_count) in enumerate(pairwise((length, *(groups or ()))), start=1):
        if group_count < 1 or (is_whole_line and group_count > places):
            raise ValueError(
                f"k_tree: {group_count} groups in level {level} of a line of {length} PEs: give 1 to {places}"
            )


def _levels(count: int, groups: Groups) -> list[list[list[int]]]:
    """Return the groups of each level of a K-tree, as lists of PE indices.

    The first level divides all PEs into groups. Each subsequent level divides the middle PEs of the
    groups of the preceding level. The last level has one group.
    """
    places = list(range(count))
    levels: list[list[list[int]]] = []
    for group_count in (*_groups_of(count, groups), 1):
        cut = balanced_segments(len(places), min(group_count, len(places)))
        levels.append([places[first : first + size] for first, size in cut])
        places = [_middle(group) for group in levels[-1]]
    return levels


def _inward_chains(places: list[int], arrival: Arrival) -> list[Message]:
    """Return the messages that add up words from both ends of a group of PEs towards its middle PE.

    Args:
        places: Indices of the PEs of the group, in order.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
    """
    middle = len(places) // 2
    return [(a, b, arrival) for a, b in pairwise(places[: middle + 1])] + [
        (b, a, arrival) for a, b in reversed(list(pairwise(places[middle:])))
    ]


def _sample(sizes: Sizes, *, broadcast: bool) -> Case:
    """Return a test case with a K-tree. In half of all cases, its numbers of groups are random.

    Args:
        sizes: Random sizes, such as the number of PEs in a line.
        broadcast: Whether the sum is sent to all PEs (an all-reduce).
    """
    groups: Groups = None
    if sizes.number_below(2):
        groups = (1 + sizes.number_below(sizes.length),)
        if sizes.number_below(2):
            groups = (*groups, 1 + sizes.number_below(groups[0]))
    schedule = k_tree(sizes.length, 1, Arrival.ADD, broadcast=broadcast, groups=groups)
    detail = "" if groups is None else "groups " + ", ".join(map(str, groups))
    return line_case("k_tree all-reduce" if broadcast else "k_tree reduce", schedule, sizes, detail)


def _sample_of_segment(sizes: Sizes) -> Case:
    """Return a test case with a random K-tree all-reduce over a segment of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    first = sizes.number_below(sizes.length)
    count = 1 + sizes.number_below(sizes.length - first)
    groups: Groups = None if sizes.number_below(2) else (1 + sizes.number_below(count),)
    to_all = k_tree(
        sizes.length, 1, Arrival.ADD, broadcast=True, segments=((first, count),), groups=groups, to_all=True
    )
    detail = f"of PEs {first} to {first + count - 1}" + ("" if groups is None else f", groups {groups[0]}")
    return line_case("k_tree of a segment", to_all, sizes, detail)


def _on_line(length: int, number: int | None, *, broadcast: bool) -> LineSchedule:
    """Return a K-tree with two levels that adds up words over a single line of PEs.

    Args:
        length: Number of PEs in the line.
        number: Number of groups in the first level; None for the number for which the longest path
            has the fewest relays.
        broadcast: Whether the sum is sent to all PEs, as in an all-reduce.
    """
    groups = None if number is None else (number,)
    return k_tree(length, 1, Arrival.ADD, broadcast=broadcast, groups=groups)


PATTERN = Pattern(
    name="k_tree",
    samples={
        "k_tree reduce": lambda sizes: _sample(sizes, broadcast=False),
        "k_tree all-reduce": lambda sizes: _sample(sizes, broadcast=True),
        "k_tree of a segment": _sample_of_segment,
    },
    collectives={
        "k_tree": LineCollective(make=partial(_on_line, broadcast=False), takes_number=True),
        "k_tree_all_reduce": LineCollective(make=partial(_on_line, broadcast=True), takes_number=True),
    },
)
