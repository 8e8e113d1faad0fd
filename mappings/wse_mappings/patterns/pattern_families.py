"""Families of patterns that compute an operation over a line, each with an integer parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from wse_mappings.patterns.k_tree import group_count, k_tree, root_of
from wse_mappings.patterns.line_reduces import LINE_REDUCES, both_sides, reduce_multicast
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.pattern import LineReduce, Reduce
from wse_mappings.patterns.rings import ring_all_reduce
from wse_mappings.schedule import Arrival, LineSchedule

Operation = Literal["reduce", "all_reduce", "broadcast"]

RootedPattern = tuple[LineSchedule, int]
"""A pattern and its root."""


@dataclass(frozen=True, slots=True)
class PatternFamily:
    """Patterns of messages that differ only in an integer parameter, such as a number of groups.

    Attributes:
        label: Name, with ``{}`` as a placeholder for the parameter, if any.
        make: Function that maps the parameter to the pattern and its root (the PE that gets the sum
            or sends the words).
        starts: Parameter values to try first.
        max_number: Maximum value of the parameter.
        bound_cycles: Lower bound on the cycle count of each pattern in the family; 0 if unknown.
    """

    label: str
    make: Callable[[int], RootedPattern]
    starts: tuple[int, ...] = (1,)
    max_number: int = 1
    bound_cycles: int = 0


def pattern_families(
    operation: Operation,
    length: int,
    lines: int,
    arrival: Arrival,
    *,
    words: int,
    level_cycles: int,
    reduces: Iterable[LineReduce] = tuple(LINE_REDUCES.values()),
) -> list[PatternFamily]:
    """Return all families of patterns that compute an operation over every line of PEs.

    The patterns of a family differ in one integer parameter.

    Args:
        operation: ``reduce`` into any PE, ``all_reduce``, or ``broadcast`` from PE 0.
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        words: Number of 32-bit words per PE.
        level_cycles: Cycles per relay on the longest path of messages: two ramps (transfers between
            router and PE) and one cycle. The number influences which parameters a search tries
            first.
        reduces: Algorithms that reduce a line into its first PE. Each is used on its own and from
            both ends into the middle, followed by a multicast for an all-reduce.

    Raises:
        ValueError: The operation is unknown, or the number of PEs or words is zero.
    """
    if operation not in get_args(Operation) or min(length, words) < 1:
        raise ValueError(
            f"auto: {operation} of {words} words over {length} PEs: "
            f"give {', '.join(get_args(Operation))}, and at least a word and a PE"
        )
    if operation == "broadcast":
        return [PatternFamily("multicast", lambda _: (multicast(length, lines, 0), 0))]
    is_all_reduce = operation == "all_reduce"
    sums = _Sums(length, lines, arrival, is_all_reduce)
    candidates = []
    for reduce in reduces:
        numbers: tuple[tuple[int, ...], int] = ((1,), 1)
        if reduce.authors_number is not None:
            numbers = (_starts(length, reduce.authors_number(length, words, level_cycles)), length)
        candidates += [PatternFamily(reduce.label, partial(sums.into_end, reduce.make), *numbers)]
        both_sides_label = f"{reduce.label}, from both sides"
        candidates += [PatternFamily(both_sides_label, partial(sums.into_middle, reduce.make), *numbers)]
    starts = _starts(length, group_count(length))
    candidates.append(PatternFamily("K-tree of {} groups", lambda number: sums.tree((number,)), starts, length))
    candidates.append(
        PatternFamily("K-tree of {} levels", lambda levels: sums.tree(_even_groups(length, levels)), (3,), 8)
    )
    if is_all_reduce and arrival != Arrival.ARGMAX:  # parts of words could separate a value from its index
        rounds = 2 * (length - 1)  # each needs at least a level, and a hop or the words of a part
        ring_bound = rounds * (level_cycles + max(1, words // length))
        candidates.append(
            PatternFamily("ring", lambda _: (ring_all_reduce(length, lines, arrival), 0), bound_cycles=ring_bound)
        )
    return candidates


@dataclass(frozen=True, slots=True)
class _Sums:
    """Builder of reduces and all-reduces along lines of PEs.

    A reduce sums words on one PE, its root. The builder combines reduces whose root is the first PE
    of a line into other reduces, and into all-reduces that send the sum to all PEs.

    Attributes:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined.
        is_all_reduce: Whether all PEs get the sum, rather than only the root.
    """

    length: int
    lines: int
    arrival: Arrival
    is_all_reduce: bool

    def into_end(self, reduce: Callable[[int], Reduce], number: int) -> RootedPattern:
        """Return a reduce or all-reduce in which the first PE of a line computes the sum.

        Args:
            reduce: Function that returns a reduce into the first PE of a line. Its argument is the
                parameter of the algorithm, such as the number of groups.
            number: Value of this parameter.
        """
        return self._with_multicast(reduce(number)(self.length, self.lines, self.arrival), 0)

    def into_middle(self, reduce: Callable[[int], Reduce], number: int) -> RootedPattern:
        """Return a reduce or all-reduce in which the middle PE of a line computes the sum.

        The two halves of the line are reduced towards the middle at the same time.

        Args:
            reduce: Function that returns a reduce into the first PE of a line. Its argument is the
                parameter of the algorithm, such as the number of groups.
            number: Value of this parameter.
        """
        pattern = both_sides(self.length, self.lines, self.arrival, reduce(number))
        return self._with_multicast(pattern, self.length // 2)

    def tree(self, groups: tuple[int, ...]) -> RootedPattern:
        """Return a K-tree and its root, which is the PE that computes the sum.

        A K-tree reduces within groups of PEs, then among the groups, level by level.

        Args:
            groups: Number of groups in each level except the last.
        """
        tree = k_tree(self.length, self.lines, self.arrival, broadcast=self.is_all_reduce, groups=groups)
        return tree, root_of(self.length, groups)

    def _with_multicast(self, reduce: LineSchedule, root: int) -> RootedPattern:
        """Return a reduce and its root, with a multicast appended if all PEs must get the sum."""
        return (reduce_multicast(reduce, root) if self.is_all_reduce else reduce), root


def _starts(limit: int, *authors_numbers: int) -> tuple[int, ...]:
    """Return the parameter values that a search tries first, in ascending order.

    These are powers of two and the values that the authors of a pattern recommend.

    Args:
        limit: Maximum power of two.
        authors_numbers: Recommended values. Values below 1 are replaced by 1.
    """
    powers = {1 << i for i in range(limit.bit_length())}
    return tuple(sorted(powers | {max(1, number) for number in authors_numbers}))


def _even_groups(length: int, levels: int) -> tuple[int, ...]:
    """Return how many groups each level of a K-tree has if all groups have about the same size.

    A K-tree reduces within groups of PEs, then among the groups, level by level.

    Args:
        length: Number of PEs on the line.
        levels: Number of levels.

    Returns:
        Number of groups for each level except the last.

    >>> _even_groups(64, 3), _even_groups(64, 1)
    ((16, 4), ())
    """
    return tuple(max(1, round(length ** (1 - i / levels))) for i in range(1, levels))
