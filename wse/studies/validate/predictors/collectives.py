"""Reduces, broadcasts and all-reduces, timed by the fabric model on the patterns that the compiler uses.

A row names an algorithm, a grid and the words on each PE. The window that its source timed adds a constant
(`windows.py`), the version of its code decides the gap between vector operations (`versions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from wse.backends.fabric.line.line_costs import LineCosts
from wse.studies.validate.measured.algorithms import Collective, collective_of
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.units import convert_cycles
from wse.studies.validate.measured.versions import collective_software
from wse.studies.validate.measured.windows import clock_starts_apart, program_window
from wse.studies.validate.predictors.fast_model import line_costs, sequence_cycles
from wse.studies.validate.predictors.harness import Grid
from wse.studies.validate.predictors.prediction import NO_GENERATION, NO_SIZE, Prediction, decline
from wse_mappings.patterns.auto_gen import auto_gen, best_depth
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.pattern import Reduce
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.patterns.x_y import x_y
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

MOST_PES: Final = 300_000
"""Maximum number of PEs on a line that is timed message by message, which takes a second or two."""

LONGEST_RING: Final = 600
"""PEs in the longest ring, whose messages grow with the square, that is timed within a few seconds."""

STAR_BATCH_WORDS: Final = 4
"""Words that a star's root takes in one operation where every PE sends one (github.com/pr0f3ss/SpMM_Cerebras)."""

_SAME_DESCRIPTORS: Final = frozenset({"flooding", "star"})
"""Algorithms in which no PE has two operations with different descriptors."""


def predict(m: Measurement) -> Prediction | None:
    """Return the cycles of a collective."""
    collective = collective_of(m)
    if collective is None:
        return None
    if clock_starts_apart(m):
        return decline("each PE's clock starts when the launch reaches it: only differences of rows are comparable")
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    if convert_cycles(m.text("metric"), 0, wafer.clock_hz) is None:
        return decline("neither cycles nor a time of a whole collective, which is what the fast model gives")
    if m.rows is None or m.cols is None or m.words is None:
        return NO_SIZE
    problem = Grid(wafer=wafer, rows=m.rows, cols=m.cols).problem()
    if problem:
        return decline(problem)
    software = collective_software(m, wafer, same_descriptors=collective.algorithm in _SAME_DESCRIPTORS)
    run = _Run(rows=m.rows, cols=m.cols, words=m.words, collective=collective, costs=line_costs(m, wafer, software))
    cycles = run.cycles()
    if isinstance(cycles, str):
        return decline(cycles)
    value = convert_cycles(m.text("metric"), cycles + program_window(m), wafer.clock_hz)
    return Prediction(value=value, method="fast model", software=software.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A collective on a rectangle of PEs, the root at a corner or at an end of a line."""

    rows: int
    cols: int
    words: int
    collective: Collective
    costs: LineCosts

    def cycles(self) -> float | str:
        """Cycles, or why they are not known."""
        what, longest = self.collective, max(self.rows, self.cols)
        if what.algorithm == "snake" and self.rows * self.cols > MOST_PES:
            return f"a snake through more than {MOST_PES:,} PEs is more than is timed message by message"
        if what.algorithm == "ring":
            return self._ring(longest)
        shortest = min((n for n in (self.rows, self.cols) if n > 1), default=1)
        if what.group == 0 or not 0 < (1 if what.groups is None else what.groups) <= shortest or what.levels == 0:
            return "the groups that the row names do not fit its line of PEs"
        if (what.kind == "broadcast") != (what.algorithm == "flooding"):
            return f"no pattern of this emulator is this {what.kind.replace('_', '-')} algorithm"
        if what.kind == "broadcast":
            return sequence_cycles(self.costs, self.words, self._flood())
        patterns = self._reduce()
        if patterns is None:
            return f"no pattern of this emulator is this {what.kind.replace('_', '-')} algorithm"
        words = self.words
        if what.algorithm == "star" and longest == self.rows * self.cols and words == 1:
            patterns, words = (_batched_star(longest),), min(STAR_BATCH_WORDS, longest - 1)
        into = sequence_cycles(self.costs, words, *patterns)
        if what.kind == "reduce" or what.algorithm in ("k_tree", "two_way"):
            return into  # a K-tree of an all-reduce has its multicast in it
        return into + self.costs.gap + sequence_cycles(self.costs, self.words, self._flood())

    def _ring(self, length: int) -> float | str:
        if self.collective.kind != "all_reduce" or length < self.rows * self.cols:
            return "a ring here is an all-reduce along one line of PEs"
        if length > LONGEST_RING:
            return f"a ring of more than {LONGEST_RING} PEs has more messages than are timed one by one"
        return sequence_cycles(self.costs, self.words, ring_all_reduce(length, 1, Arrival.ADD))

    def _flood(self) -> LineSchedule:
        """Return a multicast from a corner as one along a line with as many hops to the farthest PE."""
        return multicast(self.rows + self.cols - 1, 1, 0)

    def _reduce(self) -> tuple[LineSchedule, ...] | None:
        if self.collective.algorithm == "snake":
            return (chain(self.rows * self.cols, 1, Arrival.ADD),)
        line_reduce = self._one_line()
        if line_reduce is None:
            return None
        if min(self.rows, self.cols) == 1:
            return (line_reduce(max(self.rows, self.cols), 1, Arrival.ADD),)
        return x_y(self.rows, self.cols, Arrival.ADD, line_reduce)

    def _one_line(self) -> Reduce | None:
        """Return the reduce of a line."""
        what = self.collective
        reduces: dict[str, Reduce] = {
            "chain": chain,
            "star": star,
            "binary_tree": binary_tree,
            "two_phase": partial(two_phase, group=what.group),
            "auto_gen": self._auto_gen,
            "k_tree": self._k_tree,
            "two_way": partial(k_tree, broadcast=what.kind == "all_reduce", groups=()),
        }
        return reduces.get(what.algorithm)

    def _k_tree(self, length: int, lines: int, arrival: Arrival) -> LineSchedule:
        """The tree with the groups that the row names, or with as many levels as it names, each of the same share."""
        what, groups = self.collective, None
        if what.groups is not None:
            groups = (what.groups,)
        elif what.levels is not None and what.levels != 2:
            levels = what.levels
            groups = tuple(round(length ** ((levels - level) / levels)) for level in range(1, levels))
        return k_tree(length, lines, arrival, broadcast=what.kind == "all_reduce", groups=groups)

    def _auto_gen(self, length: int, lines: int, arrival: Arrival) -> LineSchedule:
        depth = best_depth(length, self.words, 2 * self.costs.ramp + 1)
        return auto_gen(length, lines, arrival, depth)


def _batched_star(length: int) -> LineSchedule:
    """Return a star of one word a PE, whose root takes several at a time: they come a hop apart, as one stream."""
    senders = [(pe, 0, Arrival.ADD) for pe in range(1, length, STAR_BATCH_WORDS)]
    return uniform_schedule("star", length, 1, senders, colours=1)
