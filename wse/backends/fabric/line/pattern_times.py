"""Times of patterns, alone or several at once, kept by pattern, variant and words.

Patterns that run at once share the ramps of every PE, and along one axis the links too. Along different axes lines
cross: a PE's place on its row and on its column are independent, and the PEs whose two places are equal stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from wse.backends.fabric.line.conflicts import Conflicts, find_conflicts
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import LineEnd, LineTime, lines_end
from wse.backends.fabric.line.part_time import part_time
from wse.backends.fabric.line.pieces import Places
from wse.backends.fabric.line.segments import LinePlan, line_segments
from wse.backends.fabric.line.stretches import Line, Stretch, stretches_of
from wse.backends.fabric.links.routes import LongestLine
from wse.program.steps import ROWS
from wse_mappings.schedule import LineSchedule

MOST_PLANS: Final = 256
"""Stretches of lines whose segments and conflicts are kept: some 100 kB each."""

MOST_PATTERNS: Final = 1024
"""Patterns whose stretches, and patterns with some words whose times are kept."""

MOST_ENDS: Final = 4096
"""Stretches with some words whose ends are kept: some 10 kB each, of messages."""


class LinePattern(NamedTuple):
    """A variant of a pattern with its words along lines of an axis; one line represents all equal ones."""

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


class StretchMessages(NamedTuple):
    """The messages of a pattern on a segment, their words, and whether its line crosses the first pattern's."""

    stretch: Stretch
    words: int
    across: bool


@lru_cache(maxsize=16)
def pattern_times(costs: LineCosts) -> PatternTimes:
    """Return the PatternTimes for a set of costs, one object per process."""
    return PatternTimes(costs)


class PatternTimes:
    """Times of patterns with one set of costs, cached by pattern and by segments of lines."""

    def __init__(self, costs: LineCosts) -> None:
        self.costs = costs
        self._plan = lru_cache(MOST_PLANS)(self._plan_stretch)
        self._conflicts = lru_cache(MOST_PLANS)(self._find_conflicts)
        self._end = lru_cache(MOST_ENDS)(self._end_of_stretch)
        self._stretches = lru_cache(MOST_PATTERNS)(self._cut_lines)
        self._time = lru_cache(MOST_PATTERNS)(self._time_patterns)

    def time(self, transfers: Sequence[LinePattern]) -> LineTime:
        """Return the time of patterns that start together; earlier ones in the list use ramps out of PEs first.

        A pattern whose words are cut into parts is taken to be alone on its links and ramps.
        """
        return self._time(tuple(transfers))

    def alone_cycles(self, schedule: LineSchedule, words: int, axis: int = ROWS) -> float:
        """Return the cycles of a pattern whose lines all do the same, for a number of words per message."""
        return self.time([LinePattern(schedule, 0, words, axis)]).cycles.total

    def _time_patterns(self, transfers: tuple[LinePattern, ...]) -> LineTime:
        whole = [transfer for transfer in transfers if transfer.schedule.part is None]
        in_parts = [transfer for transfer in transfers if transfer.schedule.part is not None]
        alone = [LineTime(part_time(t.schedule, t.variant, t.carried_words, self.costs, t.places)) for t in in_parts]
        stretches = self._stretches(tuple((t.schedule, t.variant, t.line) for t in whole))
        loads = [(transfer.carried_words, transfer.axis != whole[0].axis) for transfer in whole]
        ends = [
            self._end(
                tuple(StretchMessages(one, *load) for one, load in zip(lines, loads, strict=True) if one.messages)
            )
            for lines in stretches
        ]
        return max([LineTime.of(ends), *alone], key=lambda time: time.cycles)

    def _cut_lines(self, lines: tuple[tuple[LineSchedule, int, LongestLine | None], ...]) -> list[tuple[Stretch, ...]]:
        return stretches_of(
            [
                Line(*schedule.of_variant(variant)[:2], line.places if line else None)
                for schedule, variant, line in lines
            ]
        )

    def _end_of_stretch(self, work: tuple[StretchMessages, ...]) -> LineEnd:
        conflicts = {
            (i, j): self._conflicts(work[i].stretch, work[j].stretch, links=work[i].across == work[j].across)
            for i in range(len(work))
            for j in range(i)
        }
        return lines_end([(self._plan(carried.stretch), carried.words) for carried in work], self.costs, conflicts)

    def _plan_stretch(self, stretch: Stretch) -> LinePlan:
        messages, colours, places = stretch.line
        return line_segments(messages, self.costs, colours, places)

    def _find_conflicts(self, later: Stretch, earlier: Stretch, *, links: bool) -> Conflicts:
        pieces, other_pieces = self._plan(later).pieces, self._plan(earlier).pieces
        return find_conflicts(pieces, other_pieces, self.costs, same=False, links=links)
