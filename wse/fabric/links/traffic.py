"""What a step moves: words, the links that they cross, and bytes between wafers, over all turns of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from wse.fabric.links.link_map import COL, END_COL, I64, PLANE
from wse.fabric.links.loads import EAST, cache_shift, edge_streams, laid, line_loads, line_rectangles, translation
from wse.fabric.links.routes import DIRECTIONS, Ways
from wse.number_formats import ELEMENT_BYTES
from wse.program.phase import Phase
from wse.program.program import Program, Stage
from wse.program.steps import ROWS, Field, HostStream, Kind
from wse_mappings.cuts.split import ceil_div
from wse_mappings.schedule import Arrival, LineSchedule

NOTHING: Final = np.zeros((0, 6), np.int64)


class Moved(NamedTuple):
    """Words of a step's messages, the same times the links that each crosses, bytes of a crossing, and the links.

    ``rectangles`` int64 ``[n, 6]`` are those of ``link_map``; planes are wafers times directions.
    """

    words: int
    hops: int
    bytes: int
    rectangles: I64


class Traffic:
    """The traffic of a Program's steps. Keeps what a pattern does, whatever the words."""

    def __init__(self, program: Program, ways: Ways | None = None) -> None:
        self.program, self.ways = program, ways or Ways(program)
        self._view_bytes = [ELEMENT_BYTES[t] for t in program.element_types]
        self._unit: dict[tuple[int, int, int], I64] = {}
        self._carried: dict[tuple[int, int, int, range], int] = {}

    def words(self, phase: Phase, step: int, slots: int, turn: int = 0) -> int:
        """32-bit words of one message of a step."""
        return self.part_words(phase, step, int(phase.steps.operands(step, slots, turn)[Field.ELEMENTS]))

    def part_words(self, phase: Phase, step: int, elements: int) -> int:
        """32-bit words of so many elements of a step's view."""
        return ceil_div(elements * self._view_bytes[phase.steps.view[step]], 4)

    def moved(self, phase: Phase, step: int, slots: int) -> Moved:
        """The traffic of a step, but for cache shifts, whose rows differ from token to token."""
        match phase.steps.kind[step]:
            case Kind.LINE:
                return self._line(phase, step, slots)
            case Kind.HAND_OVER:
                return self._hand_over(phase, step, slots)
            case Kind.CROSS:
                return self._cross(phase, step, slots)
            case Kind.WAFERS:
                return self.between_wafers(phase, step, slots, self.program.crossings(phase.steps, step))
            case _:
                return Moved(0, 0, 0, NOTHING)

    def moved_by_pairs(self, phase: Phase, step: int, slots: int, columns: I64) -> Moved:
        """The traffic of a LINE step along columns that have so many pairs of tokens and experts each."""
        starts = [0, *(np.flatnonzero(np.diff(columns)) + 1).tolist(), len(columns)]
        parts = [
            self._line(phase.of_pairs(step, int(columns[start])), 0, slots, range(start, end))
            for start, end in pairwise(starts)
        ]
        found = np.concatenate([part.rectangles for part in parts])
        return Moved(sum(part.words for part in parts), sum(part.hops for part in parts), 0, found)

    def shifted(self, phase: Phase, step: int, slots: int, passing: Sequence[int]) -> Moved:
        """The traffic of cache shifts, of users or tokens, in each of which the last ``passing`` rows take part."""
        stage = self.program.stages[phase.steps.stage[step]]
        words = self.words(phase, step, slots)
        region = stage.rect._replace(cols=stage.cols)
        return self._moved(words * sum(passing) * stage.cols, stage, cache_shift(region, passing, words))

    def _line(self, phase: Phase, step: int, slots: int, columns: range | None = None) -> Moved:
        stage, axis, turns = (
            self.program.stages[phase.steps.stage[step]],
            int(phase.steps.axis[step]),
            phase.steps.turns(step),
        )
        code, words = int(phase.steps.code[step]), self.words(phase, step, slots)
        first, rows = phase.steps.operands(step, slots)[:2].tolist()
        lines = range(first, first + rows) if axis == ROWS else columns or range(stage.cols)
        pattern = self.program.patterns[code]
        unit, times = (1, words) if pattern.part is None else (words, 1)  # parts of words are not their multiples
        if (code, turns, unit) not in self._unit:
            self._unit[code, turns, unit] = line_rectangles(line_loads(pattern, turns, unit))
        if (code, turns, unit, lines) not in self._carried:
            self._carried[code, turns, unit, lines] = _carried(pattern, unit, turns, lines)
        rectangles = laid(self._unit[code, turns, unit], stage.rect, axis, times, lines)
        return self._moved(times * self._carried[code, turns, unit, lines], stage, rectangles)

    def _hand_over(self, phase: Phase, step: int, slots: int) -> Moved:
        stage, words = self.program.stages[phase.steps.stage[step]], self.words(phase, step, slots)
        if self.program.shares_pes(int(phase.steps.stage[step]), int(phase.steps.fixed[step, Field.TARGET_STAGE])):
            return Moved(0, 0, 0, NOTHING)  # from one place in SRAM to another
        rectangles = self.hand_over(phase, step, words)
        carried = words * stage.rect.rows * int(phase.steps.fixed[step, Field.COLS])
        return Moved(carried, self.ways.hops_of(rectangles), 0, rectangles)

    def hand_over(self, phase: Phase, step: int, words: int) -> I64:
        """The rectangles of a hand-over."""
        a = phase.steps.fixed[step]
        source, target = self.program.stages[phase.steps.stage[step]], self.program.stages[a[Field.TARGET_STAGE]]
        columns = (int(a[Field.SOURCE_COL]), int(a[Field.TARGET_COL]), int(a[Field.COLS]))
        return _on(source.wafer, translation(source.rect, target.rect, *columns, words))

    def _cross(self, phase: Phase, step: int, slots: int) -> Moved:
        """A crossing loads links inside the regions that it leaves and enters."""
        a, stage = phase.steps.fixed[step], self.program.stages[phase.steps.stage[step]]
        cols, words, payload = int(a[Field.COLS]), self.words(phase, step, slots), int(a[Field.BYTES])
        if a[Field.WHAT] == HostStream.LOGITS_OUT:
            leaving = edge_streams(stage.rect, self.program.root_row, 1, cols, words, leaving=True)
            found = _on(int(a[Field.FROM_WAFER]), leaving)
            return Moved(words * cols, self.ways.hops_of(found), payload, found)
        if a[Field.WHAT] != HostStream.NONE:
            return Moved(0, 0, payload, NOTHING)
        target = self.program.stages[a[Field.TARGET_STAGE]]
        leaving = edge_streams(stage.rect, 0, stage.rect.rows, cols, words, leaving=True)
        entering = edge_streams(target.rect, 0, target.rect.rows, cols, words, leaving=False)
        parts = [_on(stage.wafer, leaving), _on(target.wafer, entering)]
        rectangles = np.concatenate(parts)
        return Moved(words * cols * stage.rect.rows, self.ways.hops_of(rectangles), payload, rectangles)

    def between_wafers(self, phase: Phase, step: int, slots: int, pairs: Sequence[tuple[int, int]]) -> Moved:
        """The traffic of a WAFERS step whose messages go between those pairs of wafers.

        It loads links from the PEs that send to the edge, and from the edge to those that get.
        """
        a, stage = phase.steps.operands(step, slots), self.program.stages[phase.steps.stage[step]]
        words = int(a[Field.ROUNDS]) * self.part_words(phase, step, int(a[Field.PART]))
        row, col, end_col = stage.rect.row + int(a[0]), stage.rect.col, stage.rect.col + stage.rect.cols - 1
        ways = ((0, (col + int(a[Field.SOURCE_COL]), end_col)), (1, (col, col + int(a[Field.TARGET_COL]))))
        found = np.array(
            [(pair[end] * DIRECTIONS + EAST, row, row + int(a[1]), *way, words) for pair in pairs for end, way in ways],
            np.int64,
        ).reshape(-1, 6)
        hops = self.ways.hops_of(found)
        return Moved(words * int(a[1]) * len(pairs), hops, int(a[Field.BYTES]) * len(pairs), found)

    def _moved(self, words: int, stage: Stage, rectangles: I64) -> Moved:
        """The rectangles of a region whose columns are counted through all of its wafers."""
        found = _on(stage.wafer, rectangles if stage.span == 1 else _by_wafer(stage, rectangles))
        return Moved(words, self.ways.hops_of(found), 0, found)


def _by_wafer(stage: Stage, rectangles: I64) -> I64:
    """Each rectangle once on every wafer that it lies on, wafers counted from the first of the stage."""
    west, cols = stage.rect.col, stage.rect.cols
    first, last = (rectangles[:, COL] - west) // cols, (rectangles[:, END_COL] - 1 - west) // cols
    times = np.maximum(last - first + 1, 0)
    found = np.repeat(rectangles, times, axis=0)
    wafer = np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(found))
    low = west + wafer * cols
    found[:, COL] = np.maximum(found[:, COL], low) - wafer * cols
    found[:, END_COL] = np.minimum(found[:, END_COL], low + cols) - wafer * cols
    found[:, PLANE] += wafer * DIRECTIONS
    return found


def _on(wafer: int, rectangles: I64) -> I64:
    """The rectangles on a wafer, whose planes are its own."""
    rectangles[:, PLANE] += wafer * DIRECTIONS
    return rectangles


def _carried(pattern: LineSchedule, words: int, turns: int, lines: range) -> int:
    """Words of the messages that travel, over some lines and all turns."""
    wire = np.where(pattern.messages[:, 2] != Arrival.KEEP, pattern.carried(words), 0)
    per_variant = np.add.reduceat(np.append(wire, 0), pattern.first[:-1]) * (np.diff(pattern.first) > 0)
    rounds = pattern.variants[np.arange(turns) % len(pattern.variants)][:, lines.start : lines.stop]
    return int(per_variant[rounds].sum())
