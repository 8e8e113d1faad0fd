"""Search for the cheapest pattern for a line, timed with a cost function passed by the caller.

A family is a set of patterns that differ in an integer parameter: the group size of a two-phase
reduce, the groups or levels of a K-tree, or the depth of an auto-gen tree. A family is tried at
powers of two and at the number chosen by its authors. The best family's number is then changed by
half its value, a quarter, and so on, as long as this reduces the cost. A pattern is not timed if
its lower bound is not below the best cost so far. The bound follows from its longest path and from
the number of words that a PE receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wse_mappings.patterns.line_reduces import LINE_REDUCES
from wse_mappings.patterns.pattern import LineReduce
from wse_mappings.patterns.pattern_families import Operation, PatternFamily, RootedPattern, pattern_families
from wse_mappings.schedule import Arrival, LineSchedule

Cost = Callable[[LineSchedule], float]
"""Function that returns the cycle count of a pattern on its lines.

The caller determines the number of words, the machine and the software. The cycles must satisfy
three bounds: a hop takes at least one cycle, a relay takes at least one level, and a PE receives at
most one word per cycle.
"""


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """The pattern chosen for an operation, and its cost.

    Attributes:
        label: Name of the pattern, with its parameter.
        schedule: Messages of the pattern.
        root: PE that gets the sum of a reduce or sends the words of a broadcast; 0 for rings, which
            have no root.
        cost: Cost of the pattern in cycles, computed by the caller's cost function.
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
    """Return the pattern with the lowest cost for an operation along each line of PEs.

    A family consists of patterns that differ in an integer parameter. A pattern is skipped if a
    lower bound on its cost is not below the best cost so far.

    1. Try a few parameters of every family, in ascending order of the patterns' lower bounds.
    2. Vary the parameter of the best family in ever smaller steps.

    Args:
        operation: ``reduce`` into any PE, ``all_reduce``, or ``broadcast`` from PE 0.
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        words: Number of 32-bit words per PE.
        level_cycles: Cycles per relay on the longest path of messages, for the lower bounds.
        cost: Function that returns the cycle count of a pattern.
        reduces: Algorithms that reduce a line into its first PE, from which patterns are built.

    Raises:
        ValueError: The operation is unknown, or the number of PEs or words is zero.
    """
    candidates = pattern_families(
        operation, length, lines, arrival, words=words, level_cycles=level_cycles, reduces=reduces
    )
    search = _Search(candidates, words, level_cycles, cost)
    # 1. Starting parameters.
    starts = [(index, start) for index, family in enumerate(candidates) for start in family.starts]
    for start in sorted(starts, key=search.bound):
        search.try_number(*start)
    # 2. Parameters near the best one.
    family, number = search.at
    step = number // 2
    while step:
        near = [n for n in (number - step, number + step) if 1 <= n <= candidates[family].max_number]
        has_improved = [search.try_number(family, n) for n in near]
        step = step if any(has_improved) else step // 2
        number = search.at[1]
    return search.best


class _Search:
    """State of a search for the cheapest pattern: the patterns created so far and the best one."""

    best: PatternChoice

    def __init__(self, candidates: list[PatternFamily], words: int, level_cycles: int, cost: Cost) -> None:
        self.families, self.words, self.level_cycles, self.cost = candidates, words, level_cycles, cost
        self.at = (-1, -1)  # family and parameter of the best pattern
        self._made: dict[tuple[int, int], RootedPattern] = {}
        self._bounds: dict[tuple[int, int], int] = {}

    def bound(self, key: tuple[int, int]) -> int:
        """Return a lower bound on a pattern's cycle count, given its (family, parameter) key."""
        if key not in self._bounds:
            family = self.families[key[0]]
            bound = family.bound_cycles
            self._bounds[key] = bound or schedule_bound_cycles(self._make(key)[0], self.words, self.level_cycles)
        return self._bounds[key]

    def try_number(self, family: int, number: int) -> bool:
        """Try one pattern of a family, and return whether it costs less than all patterns so far.

        To save time, its cost is not computed if a lower bound shows that it cannot be below the
        cost of the best pattern so far.

        Args:
            family: Index of the family, a set of patterns that differ in one integer parameter.
            number: Value of this parameter.
        """
        key, has_bound = (family, number), self.at[0] >= 0
        if has_bound and self.bound(key) >= self.best.cost:
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
        """Return the pattern with a (family, parameter) key, creating it on the first call."""
        if key not in self._made:
            self._made[key] = self.families[key[0]].make(key[1])
        return self._made[key]


def schedule_bound_cycles(schedule: LineSchedule, words: int, level_cycles: int) -> int:
    """Return a lower bound on the cycle count of a pattern of messages.

    The bound is the larger of two numbers:

    - the latency of the longest chain of messages, plus the number of words per message
    - the maximum number of words that a PE receives, not counting multicasts

    The latency of a message is one cycle per hop plus ``level_cycles``.

    Args:
        schedule: Messages of the pattern.
        words: Number of words per message.
        level_cycles: Minimum number of cycles per relay, which is a PE that receives words and
            sends them on.
    """
    ready = [0] * schedule.length
    received_words = [0] * schedule.length
    for source, target, arrival in schedule.messages.tolist():
        if source != target:
            ready[target] = max(ready[target], ready[source] + level_cycles + abs(target - source))
            received_words[target] += words * (arrival != Arrival.MULTICAST)
    return max(max(ready) + words, *received_words) if max(ready) else 0
