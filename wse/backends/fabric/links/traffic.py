"""Traffic of a step: its words, the links that they cross, and its bytes between wafers.

Links with equal word counts are represented by rectangles in the format of ``link_map``. Each
direction on a wafer is a plane, with the index wafer * 4 + direction. All numbers are totals over
the iterations of the step's loop.
"""

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
from wse.program.program import Program
from wse.program.stage import Stage
from wse.program.steps import ROWS, Phase, Slots
from wse.program.transfers.messages import EdgeStream, LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.schedule import Arrival, LineSchedule


class StepTraffic(NamedTuple):
    """Traffic of a step, over all iterations of its loop.

    Attributes:
        words: Number of words sent.
        hops: Number of links that each word crosses, summed over all words.
        bytes: Payload in bytes between wafers, or to and from the host.
        rectangles: int64 ``[n, 9]``, links that carry the words: rectangles of links with equal
            word counts (see ``link_map.rectangles_of``).
    """

    words: int
    hops: int
    bytes: int
    rectangles: I64


NO_TRAFFIC: Final = StepTraffic(0, 0, 0, NOTHING)


class StreamSize(NamedTuple):
    """Longest path and busiest link of a transfer to another region or wafer.

    Cycles are computed from these two numbers. They do not depend on hardware or software costs, so
    they are cached.

    Attributes:
        hops: Hops of the longest path.
        words: Words on the busiest link.
    """

    hops: int
    words: int


class Traffic:
    """Traffic model for a Program's steps: the number of words sent, and the links that carry them.

    Results for communication patterns are cached.
    """

    def __init__(self, program: Program, routes: Routes | None = None) -> None:
        self.program, self.routes = program, routes or Routes(program)
        self.stream_sizes: dict[Transfer, StreamSize | None] = {}  # None for transfers that use no links
        self._unit_rectangles, self._carried_words = cache(_unit_rectangles), cache(_carried_words)
        self._corners = np.array(
            [
                (stage.wafer * DIRECTIONS, stage.rect.row, stage.rect.row, stage.rect.col, stage.rect.col, 0, 0, 0, 0)
                for stage in program.stages
            ],
            np.int64,
        )

    def step_traffic(
        self, phase: Phase, step: int, slots: Slots, chosen_wafers: frozenset[int] | None = None
    ) -> StepTraffic:
        """Return the traffic of a step, which must not be a cache shift (see `shift_traffic`).

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            chosen_wafers: Wafers that store selected experts, for a step that depends on the
                selection.
        """
        if phase.steps.computes(step):
            return NO_TRAFFIC
        transfer = transfer_of(self.program, phase, step, slots, chosen_wafers=chosen_wafers)
        if transfer.leaves_wafer:
            return self._over_edges(transfer)
        messages = transfer.messages
        if isinstance(messages, LineMessages):
            return self._line(phase, step, transfer, messages)
        if isinstance(messages, Translation) and not transfer.in_memory:
            rectangles = self.translation(transfer, messages)
            word_count = int(messages.words @ messages.columns)
            return StepTraffic(word_count, self.routes.hops_of(rectangles), 0, rectangles)
        return NO_TRAFFIC

    def traffic_by_pairs(self, phase: Phase, step: int, slots: Slots, columns: I64) -> StepTraffic:
        """Return the traffic of a step that sends a different number of words along each column.

        The length of a column's messages depends on how many (token, expert) pairs it processes.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            columns: int64 ``[cols]``, number of (token, expert) pairs on each column.
        """
        # Neighbouring columns with equal numbers of pairs are computed together.
        starts = [0, *(np.flatnonzero(np.diff(columns)) + 1).tolist(), len(columns)]
        parts = []
        for start, end in pairwise(starts):
            one_step = phase.with_pairs(step, int(columns[start]))
            transfer = transfer_of(self.program, one_step, 0, slots)
            assert isinstance(transfer.messages, LineMessages)
            parts.append(self._line(one_step, 0, transfer, transfer.messages, range(start, end)))
        rectangles = np.concatenate([part.rectangles for part in parts])
        return StepTraffic(sum(part.words for part in parts), sum(part.hops for part in parts), 0, rectangles)

    def shift_traffic(self, phase: Phase, step: int, slots: Slots, lengths: Sequence[int]) -> StepTraffic:
        """Return the total traffic of several cache shifts of one step.

        Each decoded token of a user needs one cache shift: PEs send a cache entry to the row above,
        which makes room for the new token in the last row.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            lengths: For each shift, the number of tokens in the user's cache.
        """
        transfer = transfer_of(self.program, phase, step, slots)
        stage = transfer.site.placed_stage
        passing = [CacheBalance.passing_rows(length, stage.rect.rows) for length in lengths]
        region = stage.rect._replace(cols=stage.cols)
        rectangles = cache_shift(region, passing, transfer.words)
        return self._region_traffic(transfer.words * sum(passing) * stage.cols, stage, rectangles)

    def in_stages(self, rectangles: I64, stage: int, counts: I64) -> I64:
        """Return the links that equal steps of several stages use, given the links of one step.

        A stage is a part of the model, stored on one region of PEs. The links are moved to the
        region of each stage, and their words are multiplied by the number of steps there.

        Args:
            rectangles: Rectangles of links that one of the steps uses.
            stage: Stage of that step.
            counts: int64 ``[stages]``, number of the steps in each stage.
        """
        stages = np.flatnonzero(counts)
        stage_rectangles = rectangles + (self._corners[stages] - self._corners[stage])[:, None]
        stage_rectangles[:, :, WORDS] *= counts[stages, None]
        return np.asarray(stage_rectangles.reshape(-1, stage_rectangles.shape[2]), np.int64)

    def path_segments(self, transfer: Transfer) -> list[I64]:
        """Return the links that a transfer to another region or wafer uses, by part of its path.

        The path to another wafer has two parts: to the edge of the sending wafer, and from the edge
        of the receiving wafer. The list is empty if the transfer uses no links of the mesh.

        Returns:
            For each part, an array of rectangles of links, int64 ``[n, 9]``.
        """
        if transfer.leaves_wafer:
            ends = ([edge for edge in transfer.edges if edge.leaving == leaving] for leaving in (True, False))
            return [np.concatenate([_edge(edge) for edge in edges]) for edges in ends if edges]
        return [self.translation(transfer, transfer.messages)] if isinstance(transfer.messages, Translation) else []

    def translation(self, transfer: Transfer, messages: Translation) -> I64:
        """Return the links that a transfer between two regions of a wafer uses, with their words.

        Args:
            transfer: The transfer (a step that moves words).
            messages: Its messages: pieces of vectors with sending and receiving rows.

        Returns:
            int64 ``[n, 9]``: rectangles of links with equal word counts.
        """
        source, target = transfer.site.placed_stage, self.program.stages[messages.target_stage]
        return _on_wafer(source.wafer, translation(source.rect, target.rect, messages))

    def _line(
        self, phase: Phase, step: int, transfer: Transfer, messages: LineMessages, columns: range | None = None
    ) -> StepTraffic:
        """Return the traffic of a pattern along the rows or columns of a region.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step that runs the pattern.
            transfer: Transfer of the step.
            messages: The pattern, its axis, and the rows that take part.
            columns: Columns of the region to count if the pattern runs along columns; None for all.
        """
        stage, iterations, words = transfer.site.placed_stage, phase.steps.iterations(step), transfer.words
        axis, pattern = messages.axis, messages.schedule
        rows = range(messages.first_row, messages.first_row + messages.rows)
        lines = rows if axis == ROWS else columns or range(stage.cols)
        # Loads are cached for messages of one word and multiplied. Parts of messages have no such unit.
        unit, times = (1, words) if pattern.part is None else (words, 1)
        rectangles = pattern_rectangles(
            self._unit_rectangles(pattern, iterations, unit), stage.rect, axis, times, lines
        )
        return self._region_traffic(times * self._carried_words(pattern, unit, iterations, lines), stage, rectangles)

    def _over_edges(self, transfer: Transfer) -> StepTraffic:
        """Return the traffic of a transfer that leaves its wafer.

        The words use the links to the edge of the sending wafer and from the edge of the receiving
        wafer. A word is counted once, when it leaves a wafer.
        """
        rectangles = np.concatenate([NOTHING, *(_edge(edge) for edge in transfer.edges)])
        words = sum(edge.words * edge.rows * edge.cols for edge in transfer.edges if edge.leaving)
        payload = transfer.crossing_bytes * len(transfer.crossings)
        return StepTraffic(words, self.routes.hops_of(rectangles), payload, rectangles)

    def _region_traffic(self, words: int, stage: Stage, rectangles: I64) -> StepTraffic:
        """Return the traffic of a pattern that runs on one region.

        Args:
            words: Number of words sent.
            stage: Stage of the region.
            rectangles: Links that carry the words. If the region spans several wafers, columns are
                numbered through all wafers as if they were one.
        """
        wafer_rectangles = _on_wafer(stage.wafer, rectangles if stage.span == 1 else _by_wafer(stage, rectangles))
        return StepTraffic(words, self.routes.hops_of(wafer_rectangles), 0, wafer_rectangles)


def _by_wafer(stage: Stage, rectangles: I64) -> I64:
    """Convert rectangles of links of a region that spans wafers to rectangles on single wafers.

    In the given rectangles, columns are counted across all wafers of the stage. In the result, they
    are counted on each wafer, and the plane is (wafer - first wafer of the stage) * 4 + direction.
    """
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
    """Return the links between a wafer's edge and the PEs that exchange words with another wafer.

    The result is int64 ``[n, 9]``: rectangles of links with equal word counts.
    """
    return _on_wafer(edge.wafer, edge_streams(edge))


def _on_wafer(wafer: int, rectangles: I64) -> I64:
    """Move rectangles of links from wafer 0 to another wafer, in place, and return them.

    Args:
        wafer: Index of the other wafer.
        rectangles: int64 ``[n, 9]`` (see ``link_map.rectangles_of``).
    """
    rectangles[:, PLANE] += wafer * DIRECTIONS
    return rectangles


def _unit_rectangles(pattern: LineSchedule, iterations: int, words: int) -> I64:
    """Return the links that a pattern uses in ``iterations`` iterations of its loop, as rectangles.

    The rectangles are on a map with one row per line and one column per PE of a line.

    Args:
        pattern: The communication pattern.
        iterations: Number of iterations.
        words: Number of words per message.
    """
    return line_rectangles(line_loads(pattern, iterations, words))


def _carried_words(pattern: LineSchedule, words: int, iterations: int, lines: range) -> int:
    """Return how many words the given lines send to other PEs, over several iterations of a loop.

    Args:
        pattern: The communication pattern.
        words: Number of words per PE, which messages send as a whole or in parts.
        iterations: Number of iterations.
        lines: Indices of the lines.
    """
    wire = np.where(pattern.messages[:, 2] != Arrival.COPY, pattern.words_of_messages(words), 0)
    per_variant = np.add.reduceat(np.append(wire, 0), pattern.first[:-1]) * (np.diff(pattern.first) > 0)
    rounds = pattern.variants[np.arange(iterations) % len(pattern.variants)][:, lines.start : lines.stop]
    return int(per_variant[rounds].sum())
