"""The reduces of a decoded token, compared with the published lower bound and the cheapest pattern.

A step is included if all its lines combine words in the same way. The lines may be divided into
segments that work concurrently; the longest segment then represents all of them. Cycles cover only
the pattern on live PEs, without the launch of the step, which is the same for every pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np

from wse.backends.fabric.expert_columns import fullest_column_step
from wse.backends.fabric.line.closed_forms import distance_to_bound, level_cycles, reduce_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.line_patterns import line_reduces
from wse.program.program import Program
from wse.program.steps import ROWS, Slots
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type, transfer_of
from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse_mappings.patterns.auto import PatternChoice, cheapest_pattern
from wse_mappings.patterns.pattern_families import Operation
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

MAX_PES: Final = 1000
"""Longest line whose bound is computed, and total length of the lines searched for a cheaper pattern.

These limits keep the computation time to about a second. A search takes up to 1.5 ms per PE, and
the time to compute a bound grows with the cube of the line length.
"""

MAX_ROWS: Final = 6
"""Maximum number of reduces to print."""


class CombinedSegment(NamedTuple):
    """Consecutive PEs of a row or column that combine their words in a reduce or all-reduce.

    Attributes:
        operation: ``reduce`` or ``all_reduce``.
        pes: Number of PEs in the segment.
        root: Index within the segment of the PE that receives the result; 0 for an all-reduce.
        pairs: Whether words are combined as (value, index) pairs, as in an argmax.
    """

    operation: Operation
    pes: int
    root: int
    pairs: bool


class SegmentReduce(NamedTuple):
    """A reduce or all-reduce along all rows or all columns of a rectangle of PEs.

    Attributes:
        pattern: Name of the communication pattern.
        axis: Whether the pattern runs along rows or columns.
        segment: The longest series of consecutive PEs in a row or column that combine their words.
        words: Number of words per PE.
        cycles: Cycle count of the pattern, excluding the cycles to start its code.
    """

    pattern: str
    axis: int
    segment: CombinedSegment
    words: int
    cycles: float


class ReduceResult(Result):
    """Number and cost of the equivalent reduces of a decoded token.

    A reduce combines the words of the PEs on a line (a row or column), for example by adding them
    up. An all-reduce also returns the result to all of these PEs. Reduces are equivalent if they
    have the same pattern, direction, number of PEs and number of words.
    """

    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines along which it runs")]
    steps: Annotated[int, Doc("number of such steps per token")]
    pes: Annotated[int, Doc("PEs of the longest segment of a line over which words are combined")]
    words: Annotated[int, Doc("words in each PE", "words")]
    cycles: Annotated[float, Doc("cycles of one such step, without its launch", "cycles")]
    bound_cycles: Annotated[float | None, Doc("published lower bound; for lines that are not too long", "cycles")] = (
        None
    )
    times_bound: Annotated[float | None, Doc("`cycles` over `bound_cycles`")] = None
    cheapest: Annotated[str | None, Doc("pattern with the fewest cycles, if it was searched")] = None
    cheapest_cycles: Annotated[float | None, Doc("cycles of the cheapest pattern", "cycles")] = None


def reduces_result(
    program: Program, wafer: WaferSpec, software: SoftwareProfile, slots: Slots
) -> tuple[ReduceResult, ...]:
    """Return the reduces and all-reduces of a decoded token, those with the most cycles first.

    Each one is compared with two numbers, if they can be computed in a reasonable time:

    - a published lower bound, for lines (rows or columns) of at most ``MAX_PES`` PEs
    - the cycles of the cheapest pattern, until ``MAX_PES`` PEs have been searched in total

    Sums over selected experts are reported for the busiest PE column, assuming that tokens select
    experts as evenly as possible.

    Args:
        program: The compiled Program.
        wafer: Wafer for which the Program is compiled.
        software: Costs of the software on the wafer.
        slots: Occupied KV-cache slots for each stage.
    """
    times = PatternTimes(LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles))
    steps = _reduce_counts(program, slots, times)
    sorted_reduces = sorted(steps, key=lambda line: -steps[line] * line.cycles)
    cheapest = _cheapest_patterns(sorted_reduces, times, wafer)
    return tuple(_row(line, steps[line], cheapest.get((line.segment, line.words)), wafer) for line in sorted_reduces)


def reduces_table(rows: Sequence[ReduceResult]) -> Table:
    """Return a table of the reduce operations of a token, with at most `MAX_ROWS` rows.

    Args:
        rows: Reduce operations in descending order of their cycle counts.
    """
    columns = (
        *(Column(key=key, title=key) for key in ("pattern", "along")),
        number("steps", "steps"),
        number("pes", "PEs"),
        number("words", "words"),
        number("cycles", "cycles"),
        number("times_bound", "× bound", lambda times: f"{times:.2f}"),
        Column(key="cheapest", title="cheapest", cell=_cheapest_text, wraps=True),
    )
    printed_rows, footer = rows[:MAX_ROWS], more_rows(rows, MAX_ROWS)
    if any(row.cheapest is None for row in printed_rows):
        text = f"the search covers {count(MAX_PES)} PEs in total, lines with the most cycles first"
        footer += (("not searched", text),)
    note = "of a generated token, with their lower bound and the cheapest pattern"
    return Table(columns=columns, rows=printed_rows, title="Reduces", note=note, footer=footer)


def _cheapest_text(row: ReduceResult) -> str:
    return "not searched" if row.cheapest_cycles is None else f"{count(row.cheapest_cycles)}: {row.cheapest}"


def longest_segment(pattern: LineSchedule) -> CombinedSegment | None:
    """Return the longest series of consecutive PEs whose words a communication pattern combines.

    1. Cut the line of PEs between neighbours if no combining message crosses from one to the other.
    2. Select the longest segment between two cuts.
    3. If the pattern also has messages that only copy, it is an all-reduce. Otherwise it is a
       reduce, whose root is the PE that receives words and sends none.

    Returns:
        The segment. None if the pattern combines no words, or if it has different messages on
        different lines.
    """
    if len(pattern.first) > 2:
        return None
    combining = np.isin(pattern.messages[:, 2], COMBINING)
    ends = pattern.messages[combining, :2]
    if not len(ends):
        return None
    starts, ends_at = (np.bincount(side, minlength=pattern.length) for side in (ends.min(axis=1), ends.max(axis=1)))
    last = np.flatnonzero(np.cumsum(starts - ends_at) == 0)  # 1
    first = np.append(0, last[:-1] + 1)
    longest_index = (last - first).argmax()  # 2
    start, pes = int(first[longest_index]), int((last - first)[longest_index]) + 1
    pairs = bool((pattern.messages[:, 2] == Arrival.ARGMAX).any())
    if not combining.all():  # 3
        return CombinedSegment("all_reduce", pes, 0, pairs)
    roots = np.setdiff1d(ends[:, 1], ends[:, 0])
    return CombinedSegment("reduce", pes, int(roots[roots >= start][0]) - start, pairs)


def _reduce_counts(program: Program, slots: Slots, times: PatternTimes) -> Counter[SegmentReduce]:
    """Count how often each reduce runs while a token is decoded.

    Args:
        program: The compiled Program.
        slots: Occupied KV-cache slots for each stage, which determine the words of some reduces.
        times: Timing of patterns on lines of PEs.

    Returns:
        The number of runs of each reduce. Runs count as the same reduce if they have the same
        pattern, direction, longest PE segment and number of words.
    """
    phase, cached_segment = program.decode, cache(longest_segment)
    steps: Counter[SegmentReduce] = Counter()
    for step in np.flatnonzero(is_of_type(phase.steps, AlongLine)).tolist():
        pattern, axis = program.patterns[phase.steps.pattern[step]], int(phase.steps.axis[step])
        segment = cached_segment(pattern)
        if segment is None:
            continue
        at, place = fullest_column_step(program, phase, step)
        for iteration in range(phase.steps.iterations(step)):
            words = transfer_of(program, at, place, slots, iteration).words
            steps[SegmentReduce(pattern.name, axis, segment, words, times.alone_cycles(pattern, words, axis))] += 1
    return steps


def _row(line: SegmentReduce, steps: int, cheapest: PatternChoice | None, wafer: WaferSpec) -> ReduceResult:
    pes, root = line.segment.pes, line.segment.root
    bounded = pes <= MAX_PES
    return ReduceResult(
        pattern=line.pattern,
        along="rows" if line.axis == ROWS else "columns",
        steps=steps,
        pes=pes,
        words=line.words,
        cycles=line.cycles,
        bound_cycles=reduce_bound(pes, line.words, wafer, root=root) if bounded else None,
        times_bound=distance_to_bound(line.cycles, pes, line.words, wafer, root=root) if bounded else None,
        cheapest=None if cheapest is None else cheapest.label,
        cheapest_cycles=None if cheapest is None else cheapest.cost,
    )


def _cheapest_patterns(
    sorted_reduces: list[SegmentReduce], times: PatternTimes, wafer: WaferSpec
) -> dict[tuple[CombinedSegment, int], PatternChoice]:
    """Search for the cheapest communication pattern for each reduce.

    The search takes longer for more PEs. It skips a segment if the total number of PEs in all
    searched segments would exceed `MAX_PES`.

    Args:
        sorted_reduces: The reduces, in the order in which they are searched.
        times: Timing of patterns on rows or columns of PEs.
        wafer: Wafer, which determines the cycles per level of a reduction tree.

    Returns:
        The cheapest patterns, keyed by (segment, number of words).
    """
    patterns: dict[tuple[CombinedSegment, int], PatternChoice] = {}
    remaining_pes = MAX_PES
    for line in sorted_reduces:
        segment, words, axis = line.segment, line.words, line.axis
        if (segment, words) in patterns or segment.pes > remaining_pes:
            continue
        remaining_pes -= segment.pes
        patterns[segment, words] = cheapest_pattern(
            segment.operation,
            segment.pes,
            1,
            Arrival.ARGMAX if segment.pairs else Arrival.ADD,
            words=words,
            level_cycles=level_cycles(wafer),
            cost=partial(times.alone_cycles, words=words, axis=axis),
            reduces=line_reduces().values(),
        )
    return patterns
