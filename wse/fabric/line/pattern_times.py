"""Times of patterns, alone or several at once, kept by pattern, variant and words.

Patterns that run at once share the ramps of every PE, and along one axis the links too. Along different axes lines
cross: a PE's place on its row and on its column are independent, and the PEs whose two places are equal stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from wse.fabric.line.conflicts import Conflict, find_conflicts
from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.line_time import LineTime, lines_time
from wse.fabric.line.part_time import part_time
from wse.fabric.line.pieces import Places
from wse.fabric.line.segments import LinePlan, plan_line
from wse.fabric.links.routes import LongestLine
from wse_mappings.schedule import LineSchedule

MOST_PLANS: Final = 512
"""Variants of patterns whose segments and times are kept."""


class LinePattern(NamedTuple):
    """A variant of a pattern with some words along lines of an axis, of which one stands for all that are not whole."""

    schedule: LineSchedule
    variant: int
    words: int
    axis: int
    line: LongestLine | None = None

    @property
    def carried_words(self) -> int:
        """Words that a link carries for each message: those of all lines that share it."""
        return self.words * (self.line.streams if self.line else 1)

    @property
    def places(self) -> Places:
        """Hops of the line's PEs from the first."""
        return self.line.places if self.line else None


@lru_cache(maxsize=16)
def pattern_times(costs: LineCosts) -> PatternTimes:
    """The PatternTimes of a set of costs: one object for all that is timed with it in a process."""
    return PatternTimes(costs)


class PatternTimes:
    """Cycles of patterns with one set of costs; keeps those of the last ``MOST_PLANS`` patterns or so."""

    def __init__(self, costs: LineCosts) -> None:
        self.costs = costs
        self._plans: dict[tuple[LineSchedule, int, LongestLine | None], LinePlan] = {}
        self._conflicts: dict[tuple[object, ...], list[list[Conflict]]] = {}
        self._times: dict[tuple[LinePattern, ...], LineTime] = {}

    def time(self, transfers: Sequence[LinePattern]) -> LineTime:
        """The time of some patterns that start at once; those before others in the list have ramps out of PEs first.

        A pattern whose words are cut into parts is taken to be alone on its links and ramps.
        """
        key = tuple(transfers)
        if len(self._plans) > MOST_PLANS:
            for memo in (self._plans, self._conflicts, self._times):
                memo.clear()
        if key not in self._times:
            self._times[key] = self._time(key)
        return self._times[key]

    def _time(self, transfers: tuple[LinePattern, ...]) -> LineTime:
        whole = [transfer for transfer in transfers if transfer.schedule.part is None]
        in_parts = [transfer for transfer in transfers if transfer.schedule.part is not None]
        alone = [LineTime(part_time(t.schedule, t.variant, t.carried_words, self.costs, t.places)) for t in in_parts]
        plans = [(self._plan(transfer), transfer.carried_words) for transfer in whole]
        conflicts = {(i, j): self._conflicts_of(whole[i], whole[j]) for i in range(len(whole)) for j in range(i)}
        return max([lines_time(plans, self.costs, conflicts), *alone], key=lambda time: time.cycles)

    def _plan(self, transfer: LinePattern) -> LinePlan:
        key = (transfer.schedule, transfer.variant, transfer.line)
        if key not in self._plans:
            messages, colours, _ = transfer.schedule.of_variant(transfer.variant)
            self._plans[key] = plan_line(messages, colours, transfer.places)
        return self._plans[key]

    def _conflicts_of(self, later: LinePattern, earlier: LinePattern) -> list[list[Conflict]]:
        key = (*later[:2], later.line, *earlier[:2], earlier.line, later.axis == earlier.axis)
        if key not in self._conflicts:
            pieces = self._plan(later).pieces, self._plan(earlier).pieces
            self._conflicts[key] = find_conflicts(*pieces, same=False, links=later.axis == earlier.axis)
        return self._conflicts[key]
