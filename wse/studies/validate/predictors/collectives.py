"""Predictor of reduces, broadcasts and all-reduces, based on the fabric model.

The compiler uses the same patterns. A measurement names an algorithm, a grid of PEs and the number
of words on each PE. A constant is added for what the source timed in addition to the collective
(`program_window`). The gap between vector operations depends on the version of the code
(`collective_software`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from wse.backends.fabric.line.line_costs import LineCosts
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import (
    Collective,
    clock_starts_apart,
    collective_of,
    collective_software,
    program_window,
    wafer_of,
)
from wse.studies.validate.measured.text_numbers import convert_cycles
from wse.studies.validate.predictors.harness import Grid
from wse.studies.validate.predictors.paths import line_costs, sequence_cycles
from wse.studies.validate.predictors.prediction import NO_GENERATION, NO_SIZE, Declined, Prediction, require
from wse_mappings.patterns.auto_gen import auto_gen, best_depth
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.pattern import Reduce
from wse_mappings.patterns.rectangles import x_y
from wse_mappings.patterns.rings import ring_all_reduce
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

MAX_PES: Final = 300_000
"""Maximum number of PEs on a line that is timed message by message. Such a line takes one or two
seconds."""

LONGEST_RING: Final = 600
"""Maximum number of PEs in a ring. The number of messages grows quadratically; 600 PEs take a few
seconds."""

STAR_BATCH_WORDS: Final = 4
"""Number of words that the root of a star adds in one operation if every PE sends one word
(github.com/pr0f3ss/SpMM_Cerebras)."""

_SAME_DESCRIPTORS: Final = frozenset({"flooding", "star"})
"""Algorithms in which all operations of a PE have the same descriptors."""


def predict(m: Measurement) -> Prediction | None:
    """Predict the duration of a collective operation: a reduce, broadcast or all-reduce.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    collective = collective_of(m)
    if collective is None:
        return None
    if clock_starts_apart(m):
        raise Declined(
            "the clock of each PE starts when the launch reaches it, so only differences between rows are comparable"
        )
    wafer = require(wafer_of(m), NO_GENERATION)
    if convert_cycles(m.text("metric"), 0, wafer.clock_hz) is None:
        raise Declined("not the cycles or the time of a whole collective, which is what the fabric model computes")
    if m.rows is None or m.cols is None or m.words is None:
        raise Declined(NO_SIZE)
    Grid(wafer=wafer, rows=m.rows, cols=m.cols).check()
    software = collective_software(m, wafer, same_descriptors=collective.algorithm in _SAME_DESCRIPTORS)
    run = _Run(rows=m.rows, cols=m.cols, words=m.words, collective=collective, costs=line_costs(m, wafer, software))
    value = convert_cycles(m.text("metric"), run.cycles() + program_window(m), wafer.clock_hz)
    return Prediction(value=value, method="fabric model", software=software.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Measured collective operation, such as a reduce, and the costs of its messages.

    Attributes:
        rows, cols: Size of the rectangle of PEs. A line has one row or one column.
        words: Number of words on each PE.
        collective: Operation and algorithm that the measurement names.
        costs: Cycle counts of messages along a line of PEs.
    """

    rows: int
    cols: int
    words: int
    collective: Collective
    costs: LineCosts

    def cycles(self) -> float:
        """Compute the duration of the collective in cycles.

        1. Reject sizes and groups that cannot be timed. Time a ring all-reduce separately, because
           it does not consist of a reduce and a multicast.
        2. Time a broadcast as one multicast.
        3. Time a reduce. For an all-reduce, a K-tree (a reduce tree with K levels) also sends the
           sum to all PEs.
        4. For any other all-reduce, add the multicast of the sum, and the cycles between the two
           operations.

        Raises:
            Declined: The collective cannot be timed.
        """
        # 1. Sizes, groups and rings.
        collective, longest_side = self.collective, max(self.rows, self.cols)
        if collective.algorithm == "snake" and self.rows * self.cols > MAX_PES:
            raise Declined(f"a snake through more than {MAX_PES:,} PEs has too many messages to be timed one by one")
        if collective.algorithm == "ring":
            return self._ring(longest_side)
        shortest_side = min((n for n in (self.rows, self.cols) if n > 1), default=1)
        group_count = 1 if collective.groups is None else collective.groups
        if collective.group == 0 or not 0 < group_count <= shortest_side or collective.levels == 0:
            raise Declined("the groups that the row names do not fit its line of PEs")
        if (collective.kind == "broadcast") != (collective.algorithm == "flooding"):
            raise Declined(self._no_pattern)
        # 2. Broadcasts.
        if collective.kind == "broadcast":
            return sequence_cycles(self.costs, self.words, self._flood())
        # 3. Reduces.
        patterns, words = self._reduce(), self.words
        if collective.algorithm == "star" and longest_side == self.rows * self.cols and words == 1:
            patterns, words = (_batched_star(longest_side),), min(STAR_BATCH_WORDS, longest_side - 1)
        reduce_cycles = sequence_cycles(self.costs, words, *patterns)
        if collective.kind == "reduce" or collective.algorithm in ("k_tree", "two_way"):
            return reduce_cycles
        # 4. The multicast of an all-reduce.
        return reduce_cycles + self.costs.gap + sequence_cycles(self.costs, self.words, self._flood())

    @property
    def _no_pattern(self) -> str:
        """Reason for declining an algorithm that is not modelled."""
        return f"this emulator has no pattern for this {self.collective.kind.replace('_', '-')} algorithm"

    def _ring(self, length: int) -> float:
        """Compute the duration of a ring all-reduce along ``length`` PEs in cycles.

        Raises:
            Declined: The collective is something else, or the ring is too long.
        """
        if self.collective.kind != "all_reduce" or length < self.rows * self.cols:
            raise Declined("a ring here is an all-reduce along one line of PEs")
        if length > LONGEST_RING:
            raise Declined(f"a ring of more than {LONGEST_RING} PEs has too many messages to be timed one by one")
        return sequence_cycles(self.costs, self.words, ring_all_reduce(length, 1, Arrival.ADD))

    def _flood(self) -> LineSchedule:
        """Build the messages of a multicast from a corner of the rectangle to all PEs.

        The multicast is timed on a line of PEs. The number of hops along this line is the number of
        hops from the corner to the opposite corner of the rectangle.
        """
        return multicast(self.rows + self.cols - 1, 1, 0)

    def _reduce(self) -> tuple[LineSchedule, ...]:
        """Return the messages of the reduce as one or two patterns, in execution order.

        A pattern lists the messages along lines of PEs. A reduce over a rectangle needs two: along
        rows and along columns. A line, or a snake through all PEs of a rectangle, needs only one.

        Raises:
            Declined: The algorithm is not modelled.
        """
        if self.collective.algorithm == "snake":
            return (chain(self.rows * self.cols, 1, Arrival.ADD),)
        line_reduce = require(self._one_line(), self._no_pattern)
        if min(self.rows, self.cols) == 1:
            return (line_reduce(max(self.rows, self.cols), 1, Arrival.ADD),)
        return x_y(self.rows, self.cols, Arrival.ADD, line_reduce)

    def _one_line(self) -> Reduce | None:
        """Return the function that builds the messages of a reduce along a line of PEs.

        The result is None if the algorithm is not modelled.
        """
        collective = self.collective
        reduces: dict[str, Reduce] = {
            "chain": chain,
            "star": star,
            "binary_tree": binary_tree,
            "two_phase": partial(two_phase, group=collective.group),
            "auto_gen": self._auto_gen,
            "k_tree": self._k_tree,
            "two_way": partial(k_tree, broadcast=collective.kind == "all_reduce", groups=()),
        }
        return reduces.get(collective.algorithm)

    def _k_tree(self, length: int, lines: int, arrival: Arrival) -> LineSchedule:
        """Build the messages of a K-tree, a reduce along a line of PEs in K levels.

        In each level, groups of PEs add up their words in their middle PE. The middle PEs form the
        groups of the next level. Each level has fewer groups than the previous one, by a factor of
        the K-th root of the number of PEs.

        The measurement may state the number of groups or of levels. If it states neither, the tree
        has two levels, and the number of groups with the fewest relaying PEs.

        Args:
            length: Number of PEs on the line.
            lines: Number of lines that run the pattern.
            arrival: How a received word and the receiver's own word are combined, such as ADD.
        """
        collective, groups = self.collective, None
        if collective.groups is not None:
            groups = (collective.groups,)
        elif collective.levels is not None and collective.levels != 2:
            levels = collective.levels
            groups = tuple(round(length ** ((levels - level) / levels)) for level in range(1, levels))
        return k_tree(length, lines, arrival, broadcast=collective.kind == "all_reduce", groups=groups)

    def _auto_gen(self, length: int, lines: int, arrival: Arrival) -> LineSchedule:
        """Build the messages of an auto-gen reduce tree, with the best depth for the message size.

        This tree (Luczynski et al., HPDC 2024) has the fewest hops for a maximum depth.

        Args:
            length: Number of PEs on the line.
            lines: Number of lines that run the pattern.
            arrival: How a received word and the receiver's own word are combined, such as ADD.
        """
        depth = best_depth(length, self.words, 2 * self.costs.ramp + 1)
        return auto_gen(length, lines, arrival, depth)


def _batched_star(length: int) -> LineSchedule:
    """Build a star reduce, in which each PE sends one word directly to the root.

    The root adds several words in one operation. To time this, one message stands for
    `STAR_BATCH_WORDS` words of neighbouring PEs, which arrive one hop apart.

    Args:
        length: Number of PEs on the line.
    """
    senders = [(pe, 0, Arrival.ADD) for pe in range(1, length, STAR_BATCH_WORDS)]
    return uniform_schedule("star", length, 1, senders, colours=1)
