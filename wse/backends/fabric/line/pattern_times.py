"""Times of patterns, alone or several at once, cached by pattern, variant and words.

Simultaneous patterns share the ramps of every PE and, if their lines have the same axis, also the
links. A row and a column cross at one PE, whose index on the row is independent of its index on the
column. Only the PEs with two equal indices are considered, as representatives of all PEs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from wse.backends.fabric.line.contention.conflicts import Conflicts, find_conflicts
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import LineEnd, LineTime, lines_end
from wse.backends.fabric.line.part_time import part_time
from wse.backends.fabric.line.pieces import Places
from wse.backends.fabric.line.sections import LineArrays, LineSection, sections_of
from wse.backends.fabric.line.segments import LinePlan, line_segments
from wse.backends.fabric.links.routes import LongestLine
from wse.program.steps import ROWS
from wse_mappings.schedule import LineSchedule

MAX_PLANS: Final = 256
"""Maximum number of cached plans and conflicts of sections of lines; each needs about 100 kB."""

MAX_PATTERNS: Final = 1024
"""Maximum number of patterns whose sections, and whose times for a given word count, are cached."""

MAX_ENDS: Final = 4096
"""Maximum number of cached section ends for given word counts; each needs about 10 kB."""


class LinePattern(NamedTuple):
    """Communication pattern on one line of PEs, as input to `PatternTimes`.

    Attributes:
        schedule: The communication pattern.
        variant: Index of the list of messages that the line executes. Lines with the same list take
            the same time, so only one of them is timed.
        words: Number of words per message.
        axis: ROWS or COLUMNS, the direction of the line.
        line: Distances along the line; None if neighbours are one hop apart.
    """

    schedule: LineSchedule
    variant: int
    words: int
    axis: int
    line: LongestLine | None = None

    @property
    def carried_words(self) -> int:
        """Number of words on the busiest physical link if every line of PEs sends one message.

        On a wafer with dead PEs, several lines may use the same physical link. Their words are then
        added up.
        """
        return self.words * (self.line.streams if self.line else 1)

    @property
    def places(self) -> Places:
        """Hops from the first PE of the line to each PE; None if neighbours are one hop apart."""
        return self.line.places if self.line else None


class SectionMessages(NamedTuple):
    """Messages of one pattern on a section of a line, to be timed together with other patterns.

    A section is a part of a line that no message leaves or enters.

    Attributes:
        section: The messages, with sender and receiver of each, and the distances between the PEs.
        words: Number of words per message.
        crosses_first: True if this pattern runs along rows and the first of the patterns timed
            together runs along columns, or vice versa.
    """

    section: LineSection
    words: int
    crosses_first: bool


@lru_cache(maxsize=16)
def pattern_times(costs: LineCosts) -> PatternTimes:
    """Return the `PatternTimes` for a set of costs; all callers in a process share one object."""
    return PatternTimes(costs)


class PatternTimes:
    """Timing model for communication patterns with one set of costs, with a cache.

    Results are cached for each combination of simultaneous patterns, and for each section of a line
    (a part that no message leaves or enters), because identical sections occur in many patterns.
    """

    def __init__(self, costs: LineCosts) -> None:
        self.costs = costs
        self._plan = lru_cache(MAX_PLANS)(self._plan_section)
        self._conflicts = lru_cache(MAX_PLANS)(self._find_conflicts)
        self._end = lru_cache(MAX_ENDS)(self._end_of_section)
        self._sections = lru_cache(MAX_PATTERNS)(self._cut_lines)
        self._time = lru_cache(MAX_PATTERNS)(self._time_patterns)

    def time(self, transfers: Sequence[LinePattern]) -> LineTime:
        """Return the time from the common start of several patterns until the last of them ends.

        If two patterns send words from one PE, the earlier pattern in the list has priority. A
        pattern whose messages carry only parts of a PE's words is assumed to share no links or
        ramps with others.
        """
        return self._time(tuple(transfers))

    def alone_cycles(self, schedule: LineSchedule, words: int, axis: int = ROWS) -> float:
        """Return how many cycles a pattern takes if no other pattern runs at the same time.

        All lines of the pattern must send the same messages.

        Args:
            schedule: The communication pattern.
            words: Number of words per message.
            axis: ROWS or COLUMNS.
        """
        return self.time([LinePattern(schedule, 0, words, axis)]).cycles.total

    def _time_patterns(self, transfers: tuple[LinePattern, ...]) -> LineTime:
        """Compute the time of patterns that start at the same time; `time` caches the result.

        Patterns whose messages carry all words of a PE are timed together, one section at a time (a
        section is a part of a line that no message leaves). Patterns whose messages carry only
        parts of these words share no links with others and are timed one by one. The result is the
        time of the slowest section or pattern.
        """
        undivided = [transfer for transfer in transfers if transfer.schedule.part is None]
        in_parts = [transfer for transfer in transfers if transfer.schedule.part is not None]
        part_times = [
            LineTime(part_time(t.schedule, t.variant, t.carried_words, self.costs, t.places)) for t in in_parts
        ]
        sections = self._sections(tuple((t.schedule, t.variant, t.line) for t in undivided))
        loads = [(transfer.carried_words, transfer.axis != undivided[0].axis) for transfer in undivided]
        ends = [
            self._end(
                tuple(
                    SectionMessages(messages, *load)
                    for messages, load in zip(lines, loads, strict=True)
                    if messages.messages
                )
            )
            for lines in sections
        ]
        return max([LineTime.of(ends), *part_times], key=lambda time: time.cycles)

    def _cut_lines(
        self, lines: tuple[tuple[LineSchedule, int, LongestLine | None], ...]
    ) -> list[tuple[LineSection, ...]]:
        """Divide the lines of simultaneous patterns into sections that no message leaves or enters.

        Args:
            lines: One item per pattern: the pattern, the index of the list of messages that its
                line executes, and the distances along the line.

        Returns:
            The distinct sections. Each is a tuple with the messages of every pattern on it.
        """
        return sections_of(
            [
                LineArrays(*schedule.variant_messages(variant)[:2], line.places if line else None)
                for schedule, variant, line in lines
            ]
        )

    def _end_of_section(self, work: tuple[SectionMessages, ...]) -> LineEnd:
        """Return when the last of several simultaneous patterns ends on one section of a line.

        A section is a part of a line that no message leaves or enters.
        """
        conflicts = {
            (i, j): self._conflicts(
                work[i].section, work[j].section, links=work[i].crosses_first == work[j].crosses_first
            )
            for i in range(len(work))
            for j in range(i)
        }
        return lines_end([(self._plan(messages.section), messages.words) for messages in work], self.costs, conflicts)

    def _plan_section(self, section: LineSection) -> LinePlan:
        """Prepare the messages of a section of a line for timing, and find shared links and ramps.

        A section is a part of a line that no message leaves or enters.
        """
        messages, colours, places = section.line
        return line_segments(messages, self.costs, colours, places)

    def _find_conflicts(self, later_section: LineSection, earlier_section: LineSection, *, links: bool) -> Conflicts:
        """Return the links and ramps that two patterns on one section of a line both use.

        The pattern that is timed first is the earlier one.

        Args:
            later_section, earlier_section: Messages of the two patterns on the section.
            links: True if both patterns run on the same line. False if their lines cross at each
                PE, so that they share only ramps.
        """
        pieces, other_pieces = self._plan(later_section).pieces, self._plan(earlier_section).pieces
        return find_conflicts(pieces, other_pieces, self.costs, same_plan=False, links=links)
