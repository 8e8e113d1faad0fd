"""The reduces of a decoded token: how far each is from the published lower bound, and the cheapest pattern for it.

A step counts here if all its lines combine words in the same way, over the whole line or over stretches of it, which
do so at the same time; the longest stretch stands for all. Cycles are those of the pattern alone on a line of live PEs,
without the launch of its step, which is the same for any pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np

from wse.backends.fabric.expert_costs import fullest_column_step
from wse.backends.fabric.line.closed_forms import distance_to_bound, level_cycles, reduce_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.line_patterns import line_reduces
from wse.program.program import Program
from wse.program.steps import ROWS, Slots
from wse.program.transfers.kinds import of_kind, transfer_of
from wse.program.transfers.patterns import AlongLine
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.reports.terminal import count
from wse_mappings.patterns.auto import Operation, PatternChoice, cheapest_pattern
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

MOST_PES: Final = 1000
"""PEs of the longest line with a bound, and, in all, of the lines that are searched for their cheapest pattern.

Both take about a second at most: a search up to 1.5 ms a PE, and the bound of a line grows with the cube of its length.
"""

MOST_ROWS: Final = 6
"""Reduces that are shown."""


class Stretch(NamedTuple):
    """The longest stretch of a line over which a pattern combines: its PEs, and the root's place in it.

    An all-reduce leaves the result at the first PE too, and has root 0. ``pairs``: a message's two words belong
    together. Otherwise it does not matter how operands combine.
    """

    operation: Operation
    pes: int
    root: int
    pairs: bool


class StretchReduce(NamedTuple):
    """A stretch with some words in each PE, along lines of an axis, and what the pattern takes that combines them."""

    pattern: str
    axis: int
    stretch: Stretch
    words: int
    cycles: float


@dataclass(frozen=True, kw_only=True)
class ReduceResult(Result):
    """Steps of a token that combine as many words over lines of the same length in the same way."""

    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines that it runs along")]
    steps: Annotated[int, Doc("such steps of a token")]
    pes: Annotated[int, Doc("PEs of the longest stretch over which words are combined")]
    words: Annotated[int, Doc("words in each PE", "words")]
    cycles: Annotated[float, Doc("one of these steps, without its launch", "cycles")]
    bound_cycles: Annotated[
        float | None, Doc("the published lower bound; of lines that are not too long", "cycles")
    ] = None
    times_bound: Annotated[float | None, Doc("the cycles over that bound")] = None
    cheapest: Annotated[str | None, Doc("the cheapest pattern for it; where it was searched")] = None
    cheapest_cycles: Annotated[float | None, Doc("what that takes", "cycles")] = None


def reduces_result(
    program: Program, wafer: WaferSpec, software: SoftwareProfile, slots: Slots
) -> tuple[ReduceResult, ...]:
    """Reduces and all-reduces of a decoded token with ``slots`` cache slots in use.

    Those that take the most cycles of a token come first. There is no ``bound_cycles`` where a line is longer than
    ``MOST_PES``, and no ``cheapest`` where those before took up as many. Sums by pairs of tokens and experts are those
    of the fullest column where tokens choose as evenly as they can.
    """
    times = PatternTimes(LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles))
    steps = _lines(program, slots, times)
    ranked = sorted(steps, key=lambda line: -steps[line] * line.cycles)
    cheapest = _cheapest(ranked, times, wafer)
    return tuple(_row(line, steps[line], cheapest.get((line.stretch, line.words)), wafer) for line in ranked)


def reduces_table(rows: Sequence[ReduceResult]) -> Table:
    """Return the most expensive reduces of a token."""
    columns = (
        *(Column(key=key, title=key) for key in ("pattern", "along")),
        number("steps", "steps"),
        number("pes", "PEs"),
        number("words", "words"),
        number("cycles", "cycles"),
        number("times_bound", "× bound", lambda times: f"{times:.2f}"),
        Column(key="cheapest", title="cheapest", cell=_cheapest_text, wraps=True),
    )
    shown, footer = rows[:MOST_ROWS], more_rows(rows, MOST_ROWS)
    if any(row.cheapest is None for row in shown):
        text = f"lines of {count(MOST_PES)} PEs in all are, those that take the most cycles first"
        footer += (("not searched", text),)
    note = "of a generated token, beside their lower bound and the cheapest pattern"
    return Table(columns=columns, rows=shown, title="Reduces", note=note, footer=footer)


def _cheapest_text(row: ReduceResult) -> str:
    return "not searched" if row.cheapest_cycles is None else f"{count(row.cheapest_cycles)}: {row.cheapest}"


def stretch_of(pattern: LineSchedule) -> Stretch | None:
    """Return the longest stretch that a pattern combines; None where it combines none, or lines differ."""
    if len(pattern.first) > 2:
        return None
    combining = np.isin(pattern.messages[:, 2], COMBINING)
    ends = pattern.messages[combining, :2]
    if not len(ends):
        return None
    begun, ended = (np.bincount(side, minlength=pattern.length) for side in (ends.min(axis=1), ends.max(axis=1)))
    last = np.flatnonzero(np.cumsum(begun - ended) == 0)  # no message passes from here to the next PE
    first = np.append(0, last[:-1] + 1)
    longest = (last - first).argmax()
    start, pes = int(first[longest]), int((last - first)[longest]) + 1
    pairs = bool((pattern.messages[:, 2] == Arrival.ARGMAX).any())
    if not combining.all():
        return Stretch("all_reduce", pes, 0, pairs)
    roots = np.setdiff1d(ends[:, 1], ends[:, 0])
    return Stretch("reduce", pes, int(roots[roots >= start][0]) - start, pairs)


def _lines(program: Program, slots: Slots, times: PatternTimes) -> Counter[StretchReduce]:
    """Return the reduces along lines, with the number of steps of a token that execute each."""
    phase, known = program.decode, cache(stretch_of)
    steps: Counter[StretchReduce] = Counter()
    for step in np.flatnonzero(of_kind(phase.steps, AlongLine)).tolist():
        pattern, axis = program.patterns[phase.steps.pattern[step]], int(phase.steps.axis[step])
        stretch = known(pattern)
        if stretch is None:
            continue
        at, place = fullest_column_step(program, phase, step)
        for turn in range(phase.steps.turns(step)):
            words = transfer_of(program, at, place, slots, turn).words
            steps[StretchReduce(pattern.name, axis, stretch, words, times.alone_cycles(pattern, words, axis))] += 1
    return steps


def _row(line: StretchReduce, steps: int, cheapest: PatternChoice | None, wafer: WaferSpec) -> ReduceResult:
    pes, root = line.stretch.pes, line.stretch.root
    bounded = pes <= MOST_PES
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


def _cheapest(
    ranked: list[StretchReduce], times: PatternTimes, wafer: WaferSpec
) -> dict[tuple[Stretch, int], PatternChoice]:
    """Return the cheapest patterns by stretch and words, as long as there are PEs to search."""
    patterns: dict[tuple[Stretch, int], PatternChoice] = {}
    remaining_pes = MOST_PES
    for line in ranked:
        stretch, words, axis = line.stretch, line.words, line.axis
        if (stretch, words) in patterns or stretch.pes > remaining_pes:
            continue
        remaining_pes -= stretch.pes
        patterns[stretch, words] = cheapest_pattern(
            stretch.operation,
            stretch.pes,
            1,
            Arrival.ARGMAX if stretch.pairs else Arrival.ADD,
            words=words,
            level_cycles=level_cycles(wafer),
            cost=partial(times.alone_cycles, words=words, axis=axis),
            reduces=line_reduces().values(),
        )
    return patterns
