"""Traffic of a step: words, the links that they cross, and bytes between wafers, over all turns of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.links.link_map import COL, END_COL, NOTHING, PLANE, WORDS, one_by_one
from wse.backends.fabric.links.loads import (
    cache_shift,
    edge_streams,
    line_loads,
    line_rectangles,
    pattern_rectangles,
    translation,
)
from wse.backends.fabric.links.routes import DIRECTIONS, Routes
from wse.program.phase import Phase
from wse.program.program import Program, Stage
from wse.program.steps import ROWS, Slots
from wse.program.transfers.kinds import transfer_of
from wse.program.transfers.messages import EdgeStream, LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.schedule import Arrival, LineSchedule


class StepTraffic(NamedTuple):
    """The traffic of a step: words, words times links, bytes between wafers, and the links.

    ``rectangles`` int64 ``[n, 9]`` are those of ``link_map``; planes are wafers times directions.
    """

    words: int
    hops: int
    bytes: int
    rectangles: I64


NO_TRAFFIC: Final = StepTraffic(0, 0, 0, NOTHING)


class Traffic:
    """The traffic of a Program's steps, with a cache of patterns."""

    def __init__(self, program: Program, routes: Routes | None = None) -> None:
        self.program, self.routes = program, routes or Routes(program)
        self._unit_rectangles, self._carried_words = cache(_unit_rectangles), cache(_carried_words)
        self._corners = np.array(
            [
                (stage.wafer * DIRECTIONS, stage.rect.row, stage.rect.row, stage.rect.col, stage.rect.col, 0, 0, 0, 0)
                for stage in program.stages
            ],
            np.int64,
        )

    def step_traffic(self, phase: Phase, step: int, slots: Slots, chosen: frozenset[int] | None = None) -> StepTraffic:
        """Return the traffic of a step. Shifts of rows, which differ by token, are in ``shift_traffic``.

        A step that depends on the choice of experts is taken between the wafers ``chosen``.
        """
        if phase.steps.computes(step):
            return NO_TRAFFIC
        transfer = transfer_of(self.program, phase, step, slots, chosen_wafers=chosen)
        if transfer.leaves_wafer:
            return self._over_edges(transfer)
        messages = transfer.messages
        if isinstance(messages, LineMessages):
            return self._line(phase, step, transfer, messages)
        if isinstance(messages, Translation) and not transfer.in_memory:
            rectangles = self.translation(transfer, messages)
            carried = int(messages.words @ messages.columns)
            return StepTraffic(carried, self.routes.hops_of(rectangles), 0, rectangles)
        return NO_TRAFFIC

    def traffic_by_pairs(self, phase: Phase, step: int, slots: Slots, columns: I64) -> StepTraffic:
        """Return the traffic of a pattern along columns with given pairs of tokens and experts."""
        starts = [0, *(np.flatnonzero(np.diff(columns)) + 1).tolist(), len(columns)]
        parts = []
        for start, end in pairwise(starts):
            one_step = phase.of_pairs(step, int(columns[start]))
            transfer = transfer_of(self.program, one_step, 0, slots)
            assert isinstance(transfer.messages, LineMessages)
            parts.append(self._line(one_step, 0, transfer, transfer.messages, range(start, end)))
        rectangles = np.concatenate([part.rectangles for part in parts])
        return StepTraffic(sum(part.words for part in parts), sum(part.hops for part in parts), 0, rectangles)

    def shift_traffic(self, phase: Phase, step: int, slots: Slots, lengths: Sequence[int]) -> StepTraffic:
        """Return the traffic of shifts of rows, one for each decoded token of a user."""
        transfer = transfer_of(self.program, phase, step, slots)
        stage = transfer.site.placed_stage
        passing = [CacheBalance.passing_rows(length, stage.rect.rows) for length in lengths]
        region = stage.rect._replace(cols=stage.cols)
        rectangles = cache_shift(region, passing, transfer.words)
        return self._region_traffic(transfer.words * sum(passing) * stage.cols, stage, rectangles)

    def in_stages(self, rectangles: I64, stage: int, counts: I64) -> I64:
        """Return the rectangles of a step in every stage that has such steps, multiplied by their number.

        ``counts`` int64 ``[stages]`` are these numbers.
        """
        stages = np.flatnonzero(counts)
        placed = rectangles + (self._corners[stages] - self._corners[stage])[:, None]
        placed[:, :, WORDS] *= counts[stages, None]
        return np.asarray(placed.reshape(-1, placed.shape[2]), np.int64)

    def stretches(self, transfer: Transfer) -> list[I64]:
        """Return the rectangles of a transfer's streams in the order in which words pass them.

        None in memory.
        """
        if transfer.leaves_wafer:
            ends = ([edge for edge in transfer.edges if edge.leaving == leaving] for leaving in (True, False))
            return [np.concatenate([_edge(edge) for edge in edges]) for edges in ends if edges]
        return [self.translation(transfer, transfer.messages)] if isinstance(transfer.messages, Translation) else []

    def translation(self, transfer: Transfer, messages: Translation) -> I64:
        """Return the rectangles of words from one region to another of the same wafer."""
        source, target = transfer.site.placed_stage, self.program.stages[messages.target_stage]
        return _on_wafer(source.wafer, translation(source.rect, target.rect, messages))

    def _line(
        self, phase: Phase, step: int, transfer: Transfer, messages: LineMessages, columns: range | None = None
    ) -> StepTraffic:
        stage, turns, words = transfer.site.placed_stage, phase.steps.turns(step), transfer.words
        axis, pattern = messages.axis, messages.schedule
        rows = range(messages.first_row, messages.first_row + messages.rows)
        lines = rows if axis == ROWS else columns or range(stage.cols)
        unit, times = (1, words) if pattern.part is None else (words, 1)  # parts of words are not their multiples
        rectangles = pattern_rectangles(self._unit_rectangles(pattern, turns, unit), stage.rect, axis, times, lines)
        return self._region_traffic(times * self._carried_words(pattern, unit, turns, lines), stage, rectangles)

    def _over_edges(self, transfer: Transfer) -> StepTraffic:
        """Return the rectangles of a transfer that leaves its wafer: to the edge, and from the edge of the other wafer.

        Its words are those that leave a wafer.
        """
        rectangles = np.concatenate([NOTHING, *(_edge(edge) for edge in transfer.edges)])
        words = sum(edge.words * edge.rows * edge.cols for edge in transfer.edges if edge.leaving)
        payload = transfer.crossing_bytes * len(transfer.crossings)
        return StepTraffic(words, self.routes.hops_of(rectangles), payload, rectangles)

    def _region_traffic(self, words: int, stage: Stage, rectangles: I64) -> StepTraffic:
        """Return the rectangles of a region whose columns are counted over all of its wafers."""
        placed = _on_wafer(stage.wafer, rectangles if stage.span == 1 else _by_wafer(stage, rectangles))
        return StepTraffic(words, self.routes.hops_of(placed), 0, placed)


def _by_wafer(stage: Stage, rectangles: I64) -> I64:
    """Return each rectangle once per wafer that it covers, with wafers counted from the first of the stage."""
    west, cols, rectangles = stage.rect.col, stage.rect.cols, one_by_one(rectangles)
    first, last = (rectangles[:, COL] - west) // cols, (rectangles[:, END_COL] - 1 - west) // cols
    times = np.maximum(last - first + 1, 0)
    parts = np.repeat(rectangles, times, axis=0)
    wafer = np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(parts))
    low = west + wafer * cols
    parts[:, COL] = np.maximum(parts[:, COL], low) - wafer * cols
    parts[:, END_COL] = np.minimum(parts[:, END_COL], low + cols) - wafer * cols
    parts[:, PLANE] += wafer * DIRECTIONS
    return parts


def _edge(edge: EdgeStream) -> I64:
    """Return the rectangles of a stream to or from the edge of a wafer."""
    return _on_wafer(edge.wafer, edge_streams(edge))


def _on_wafer(wafer: int, rectangles: I64) -> I64:
    """Return the rectangles on a wafer, with the planes of that wafer."""
    rectangles[:, PLANE] += wafer * DIRECTIONS
    return rectangles


def _unit_rectangles(pattern: LineSchedule, turns: int, words: int) -> I64:
    """Return the links that a pattern uses over all iterations, as rectangles of a map of its own."""
    return line_rectangles(line_loads(pattern, turns, words))


def _carried_words(pattern: LineSchedule, words: int, turns: int, lines: range) -> int:
    """Return the words of the messages that travel, over some lines and all iterations."""
    wire = np.where(pattern.messages[:, 2] != Arrival.COPY, pattern.words_of_messages(words), 0)
    per_variant = np.add.reduceat(np.append(wire, 0), pattern.first[:-1]) * (np.diff(pattern.first) > 0)
    rounds = pattern.variants[np.arange(turns) % len(pattern.variants)][:, lines.start : lines.stop]
    return int(per_variant[rounds].sum())
