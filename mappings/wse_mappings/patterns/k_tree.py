"""K-tree reduce and all-reduce with two levels (K = 2), alone or in several segments of a line.

Phase 1: in each group two neighbour chains run toward the local root in its middle. Phase 2: local roots form two
chains toward the global root, through the routers between them. Phase 3, all-reduce only: the global root multicasts
both ways. One group makes it the two-way chain to the centre. Source: He et al., WaferLLM, OSDI 2025, MeshGEMV.
"""

from __future__ import annotations

import math

from wse_mappings.schedule import Arrival, LineSchedule, uniform
from wse_mappings.split import balanced_segments

Message = tuple[int, int, Arrival]


def group_count(length: int) -> int:
    """The number of groups with the fewest relays on the longest way, floor(g / 2) + floor(G / 2); the smallest.

    >>> group_count(16), group_count(1)
    (3, 1)
    """
    limit = min(length, 2 * math.isqrt(length) + 2)

    def relays(groups: int) -> int:
        return -(-length // groups) // 2 + groups // 2

    return min(range(1, limit + 1), key=lambda groups: (relays(groups), groups))


def k_tree(
    length: int, lines: int, arrival: Arrival, *, broadcast: bool, segments: tuple[tuple[int, int], ...] = ()
) -> LineSchedule:
    """Reduce ``arrival`` (ADD, LARGER or LARGER_PAIR) over each segment of every line of ``length`` PEs.

    Args:
        length: PEs in a line.
        lines: Lines that do the same.
        arrival: How two operands combine.
        broadcast: Whether every PE gets the result (all-reduce) or only the root (reduce).
        segments: (start, length) of independent stretches; the whole line when empty.

    The root of a segment is ``root_of(segment length)`` PEs from its start.
    """
    messages: list[Message] = []
    for start, count in segments or ((0, length),):
        messages += _tree(start, count, arrival)
        root = start + root_of(count)
        if broadcast:
            messages += _outward(root, start, start + count - 1)
    name = "all_reduce" if broadcast else "reduce"
    return uniform(name, length, lines, messages, colours=10 if broadcast else 8)


def root_of(count: int) -> int:
    """Index of the global root in a segment of ``count`` PEs."""
    groups = balanced_segments(count, group_count(count))
    start, size = groups[len(groups) // 2]
    return start + size // 2


def _outward(root: int, west: int, east: int) -> list[Message]:
    return [
        message
        for message in ((root, east, Arrival.MULTICAST), (root, west, Arrival.MULTICAST))
        if message[0] != message[1]
    ]


def _tree(start: int, count: int, arrival: Arrival) -> list[Message]:
    groups = [(start + s, n) for s, n in balanced_segments(count, group_count(count))]
    messages: list[Message] = []
    for first, size in groups:
        root = first + size // 2
        messages += [(pe, pe + 1, arrival) for pe in range(first, root)]
        messages += [(pe, pe - 1, arrival) for pe in range(first + size - 1, root, -1)]
    roots = [first + size // 2 for first, size in groups]
    middle = len(roots) // 2
    messages += [(roots[i], roots[i + 1], arrival) for i in range(middle)]
    messages += [(roots[i], roots[i - 1], arrival) for i in range(len(roots) - 1, middle, -1)]
    return messages
