"""Patterns along lines as transfers: on the mesh, between the wafers of one stage, and the shift of cache entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from wse.program.transfers.messages import EdgeStream, LineMessages, RowShift
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.patterns.cache_shift import COLOURS
from wse_mappings.schedule import COMBINING, LineSchedule

TO_CHOSEN, FROM_CHOSEN = 1, 2
"""Values of ``BetweenWafers.by_choice``: which end of a message must be a wafer with chosen experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlongLine(Transfer):
    """A pattern along the rows or the columns of a region.

    Attributes:
        count: With elements by pair of a token and an expert: address (float32) of the pairs on a column.
    """

    name: ClassVar[str] = "line"
    addresses: ClassVar[tuple[str, ...]] = ("source", "target", "count")

    count: int

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Return the pattern's own colours."""
        assert pattern is not None
        return pattern.colours

    @property
    def messages(self) -> LineMessages:
        """The pattern's messages, all of them on the mesh."""
        site = self.site
        return LineMessages(
            schedule=site.schedule,
            axis=site.axis,
            round=site.round,
            first_row=site.first_row,
            rows=site.rows,
            in_place=self.source == self.target,
        )

    @property
    def in_memory(self) -> bool:
        """True if all messages are copies on their PE."""
        return not self.site.schedule.travels


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShift(Transfer):
    """The last rows of a region pass a cache entry up; how many rows, a user's counters say as the step runs."""

    name: ClassVar[str] = "cache_shift"
    by_counters: ClassVar[bool] = True

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Two colours that alternate by parity of the row."""
        return COLOURS

    @property
    def messages(self) -> RowShift:
        """A message of each PE of the last rows to its northern neighbour."""
        return RowShift()


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenWafers(Transfer):
    """A pattern along rows of a region that spans wafers: messages go from one column of a wafer to one of another.

    Attributes:
        source_col: The column of each wafer that sends, counted from the first of the wafer.
        target_col: The column of each wafer that receives.
        part: Elements of one message.
        round_count: Messages from one wafer to another, each after the one before.
        latencies: Latencies of the link that are waited for.
        bytes: Payload without padding from one wafer to another.
        by_choice: Where only wafers with chosen experts take part: FROM_CHOSEN or TO_CHOSEN; else 0.
    """

    name: ClassVar[str] = "between_wafers"
    leaves_wafer: ClassVar[bool] = True

    source_col: int
    target_col: int
    part: int
    round_count: int
    latencies: int
    bytes: int
    by_choice: int

    @property
    def messages(self) -> LineMessages:
        """The pattern's messages between the wafers that take part; copies on a PE are among them."""
        site = self.site
        schedule = site.schedule
        if site.chosen is not None:
            crossings = self.crossings
            schedule = _schedule_of_some(
                schedule,
                tuple(sender == receiver or (sender, receiver) in crossings for sender, receiver in self._ends),
            )
        return LineMessages(
            schedule=schedule,
            axis=site.axis,
            round=0,
            first_row=site.first_row,
            rows=site.rows,
            in_place=self.source == self.target,
        )

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """The streams of a column to the edge of each sending wafer, and from that of each receiving one, by pair."""
        site, words = self.site, self.rounds * self.site.words(self.part)
        return tuple(
            EdgeStream(
                wafer=wafer,
                rect=site.placed_stage.rect,
                first_row=site.first_row,
                rows=site.rows,
                first_col=col,
                cols=1,
                words=words,
                leaving=leaving,
            )
            for sender, receiver in self.crossings
            for wafer, col, leaving in ((sender, self.source_col, True), (receiver, self.target_col, False))
        )

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """The pairs of wafers that messages go between, of which one end holds chosen experts where those decide."""
        pairs = tuple(dict.fromkeys((sender, receiver) for sender, receiver in self._ends if sender != receiver))
        if not self.by_choice or self.site.chosen is None:
            return pairs
        return tuple(pair for pair in pairs if pair[self.chosen_end] in self.site.chosen)

    @property
    def chosen_end(self) -> int:
        """The wafer of a pair that must hold chosen experts: 0 the one that sends, 1 the one that receives."""
        return 0 if self.by_choice == FROM_CHOSEN else 1

    @property
    def crossing_bytes(self) -> int:
        """The payload between each pair of wafers."""
        return self.bytes

    @property
    def link_latencies(self) -> int:
        """Latencies that the compiler counted: messages that go at once wait for one."""
        return self.latencies

    @property
    def rounds(self) -> int:
        """Messages from one wafer to another."""
        return self.round_count

    @property
    def added_elements(self) -> int:
        """Elements of a message, where the pattern combines."""
        return self.part if np.isin(self.site.schedule.messages[:, 2], COMBINING).any() else 0

    @property
    def _ends(self) -> list[list[int]]:
        """The wafers that each message of the pattern goes from and to."""
        stage = self.site.placed_stage
        return list((self.site.schedule.messages[:, :2] // stage.rect.cols + stage.wafer).tolist())


@lru_cache(maxsize=256)
def _schedule_of_some(schedule: LineSchedule, chosen: tuple[bool, ...]) -> LineSchedule:
    """The schedule of the messages that are chosen, one for each choice: its readers keep tables by its identity."""
    return schedule.with_messages(chosen)
