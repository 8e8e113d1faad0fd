"""The cheapest pattern for a line: all that execute an operation, timed by a cost that the caller brings.

A family is a pattern with a whole number to choose: the group of a two-phase reduce, the groups or levels of a K-tree,
the depth of a searched tree. It is tried at the powers of two and at the number that its authors choose; then the best
family's number is moved by half of itself, a quarter and so on, as long as that pays. What cannot be cheaper than the
best so far, for its longest way or for the words that a PE takes in, is not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.k_tree import group_count, k_tree, root_of
from wse_mappings.patterns.line_reduces import LINE_REDUCES
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.pattern import LineReduce, Reduce
from wse_mappings.patterns.reduce_multicast import reduce_multicast
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.schedule import Arrival, LineSchedule

Operation = Literal["reduce", "all_reduce", "broadcast"]
Cost = Callable[[LineSchedule], float]
"""Cycles of a pattern on its lines, for the words, the machine and the software that the caller has in mind.

No hop takes less than one, no relay less than a level, and a PE takes in no more than a word a cycle.
"""
RootedPattern = tuple[LineSchedule, int]
"""A pattern and its root."""


@dataclass(frozen=True, slots=True)
class PatternFamily:
    """A family of patterns that differ in one number, such as the number of groups.

    Attributes:
        label: The name, with a place for the number where it has one.
        make: From the number to the pattern.
        starts: Numbers to try first.
        most: The largest number.
        least: Cycles that none of them goes below, where that is known without making one.
    """

    label: str
    make: Callable[[int], RootedPattern]
    starts: tuple[int, ...] = (1,)
    most: int = 1
    least: int = 0


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """The pattern chosen for an operation, with its cost.

    Attributes:
        label: Its name and number.
        schedule: The pattern.
        root: The PE that has the sum of a reduce, or the words of a broadcast; 0 for a ring, which has no root.
        cost: What the caller's cost says.
    """

    label: str
    schedule: LineSchedule
    root: int
    cost: float


def cheapest_pattern(
    operation: Operation,
    length: int,
    lines: int,
    arrival: Arrival,
    *,
    words: int,
    level_cycles: int,
    cost: Cost,
    reduces: Iterable[LineReduce] = tuple(LINE_REDUCES.values()),
) -> PatternChoice:
    """Return the pattern with the lowest cost.

    Arguments and errors are those of ``pattern_families``, plus ``cost``.
    """
    candidates = pattern_families(
        operation, length, lines, arrival, words=words, level_cycles=level_cycles, reduces=reduces
    )
    search = _Search(candidates, words, level_cycles, cost)
    starts = [(index, start) for index, family in enumerate(candidates) for start in family.starts]
    for start in sorted(starts, key=search.least):
        search.try_number(*start)
    family, number = search.at
    step = number // 2
    while step:
        near = [n for n in (number - step, number + step) if 1 <= n <= candidates[family].most]
        better = [search.try_number(family, n) for n in near]
        step = step if any(better) else step // 2
        number = search.at[1]
    return search.best


class _Search:
    """The state of a search: the patterns tried so far and the best one."""

    best: PatternChoice

    def __init__(self, candidates: list[PatternFamily], words: int, level_cycles: int, cost: Cost) -> None:
        self.families, self.words, self.level_cycles, self.cost = candidates, words, level_cycles, cost
        self.at = (-1, -1)  # the family, and its number
        self._made: dict[tuple[int, int], RootedPattern] = {}
        self._least: dict[tuple[int, int], int] = {}

    def least(self, key: tuple[int, int]) -> int:
        """Return a lower bound of the cycles of a pattern, given by family and number."""
        if key not in self._least:
            chosen = self.families[key[0]]
            self._least[key] = chosen.least or schedule_bound_cycles(self._make(key)[0], self.words, self.level_cycles)
        return self._least[key]

    def try_number(self, family: int, number: int) -> bool:
        """Time one pattern of a family unless its lower bound exceeds the best; return whether it is the new best."""
        key, has_bound = (family, number), self.at[0] >= 0
        if has_bound and self.least(key) >= self.best.cost:
            return False
        schedule, root = self._make(key)
        cost = self.cost(schedule)
        if has_bound and cost >= self.best.cost:
            return False
        self.best, self.at = (
            PatternChoice(self.families[family].label.format(number), schedule, root, cost),
            key,
        )
        return True

    def _make(self, key: tuple[int, int]) -> RootedPattern:
        if key not in self._made:
            self._made[key] = self.families[key[0]].make(key[1])
        return self._made[key]


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
    """Return all families of patterns that compute an operation over every line.

    Args:
        operation: ``reduce`` into whatever PE is best, ``all_reduce``, or ``broadcast`` from PE 0.
        length: PEs in a line.
        lines: Lines that do the same.
        arrival: How two operands combine: ADD, MAX or ARGMAX.
        words: 32-bit words of each PE.
        level_cycles: Two ramps and one cycle of the machine, which the search for trees weighs against words.
        reduces: Reduces of a line into its end, which are used as they are, from both sides, and before a multicast.

    Raises:
        ValueError: an operation of another name, or no PE or word.
    """
    if operation not in get_args(Operation) or min(length, words) < 1:
        msg = (
            f"auto: {operation} of {words} words over {length} PEs: "
            f"give {', '.join(get_args(Operation))}, and at least a word and a PE"
        )
        raise ValueError(msg)
    if operation == "broadcast":
        return [PatternFamily("multicast", lambda _: (multicast(length, lines, 0), 0))]
    everywhere = operation == "all_reduce"

    def into_end(reduce: Callable[[int], Reduce], number: int) -> RootedPattern:
        return finish(reduce(number)(length, lines, arrival), 0)

    def into_middle(reduce: Callable[[int], Reduce], number: int) -> RootedPattern:
        return finish(both_sides(length, lines, arrival, reduce(number)), length // 2)

    def finish(reduce: LineSchedule, root: int) -> RootedPattern:
        return (reduce_multicast(reduce, root) if everywhere else reduce), root

    def make_tree(groups: Callable[[int], tuple[int, ...]], number: int) -> RootedPattern:
        tree = k_tree(length, lines, arrival, broadcast=everywhere, groups=groups(number))
        return tree, root_of(length, groups(number))

    candidates = []
    for reduce in reduces:
        numbers: tuple[tuple[int, ...], int] = ((1,), 1)
        if reduce.authors_number is not None:
            numbers = (_starts(length, reduce.authors_number(length, words, level_cycles)), length)
        candidates += [PatternFamily(reduce.label, partial(into_end, reduce.make), *numbers)]
        candidates += [PatternFamily(f"{reduce.label}, from both sides", partial(into_middle, reduce.make), *numbers)]
    candidates.append(
        PatternFamily(
            "K-tree of {} groups", partial(make_tree, lambda n: (n,)), _starts(length, group_count(length)), length
        )
    )
    candidates.append(PatternFamily("K-tree of {} levels", partial(make_tree, partial(_even_groups, length)), (3,), 8))
    if everywhere and arrival != Arrival.ARGMAX:  # whose two words a part could tear apart
        rounds = 2 * (length - 1)  # each takes a level, a hop at least, and the words of a part after the first
        least = rounds * (level_cycles + max(1, words // length))
        candidates.append(PatternFamily("ring", lambda _: (ring_all_reduce(length, lines, arrival), 0), least=least))
    return candidates


def schedule_bound_cycles(schedule: LineSchedule, words: int, level_cycles: int) -> int:
    """Return a lower bound of a schedule's cycles: longest path plus words, or the words that one PE combines."""
    ready = [0] * schedule.length
    received_words = [0] * schedule.length
    for source, target, arrival in schedule.messages.tolist():
        if source != target:
            ready[target] = max(ready[target], ready[source] + level_cycles + abs(target - source))
            received_words[target] += words * (arrival != Arrival.MULTICAST)
    return max(max(ready) + words, *received_words) if max(ready) else 0


def _starts(most: int, *authors: int) -> tuple[int, ...]:
    """Return powers of two up to ``most``, and the numbers that the authors of patterns choose."""
    powers = {1 << i for i in range(most.bit_length())}
    return tuple(sorted(powers | {max(1, number) for number in authors}))


def _even_groups(length: int, levels: int) -> tuple[int, ...]:
    """Return the groups in all levels but the last so that all have about the same size.

    >>> _even_groups(64, 3), _even_groups(64, 1)
    ((16, 4), ())
    """
    return tuple(max(1, round(length ** (1 - i / levels))) for i in range(1, levels))
