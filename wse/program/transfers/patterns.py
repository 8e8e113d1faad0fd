"""Transfers along lines of PEs: patterns on a mesh, patterns between wafers, and cache shifts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from wse.program.transfers.messages import EdgeStream, LineMessages, RowShift
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.patterns.streams import SHIFT_COLOURS
from wse_mappings.schedule import COMBINING, LineSchedule

TO_CHOSEN, FROM_CHOSEN = 1, 2
"""Values of ``BetweenWafers.by_choice``: the end whose wafer must have selected experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlongLine(Transfer):
    """Transfer that runs a communication pattern along the rows or columns of a region.

    Attributes:
        count: SRAM address, in float32 elements, at which each PE stores the number of (token,
            expert) pairs of its column. It is used only if the length of messages depends on this
            number.
    """

    name: ClassVar[str] = "line"
    addresses: ClassVar[tuple[str, ...]] = ("source", "target", "count")

    count: int

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Return the number of colours that the pattern uses."""
        assert pattern is not None
        return pattern.colours

    @property
    def messages(self) -> LineMessages:
        """Messages of the pattern, all of which stay on one wafer."""
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
        """True if every message is a copy within the SRAM of its PE, so that no link is used."""
        return not self.site.schedule.travels


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShift(Transfer):
    """Transfer that moves KV-cache entries from the last rows of PEs to the rows above them.

    It keeps all rows of a region about equally full. How many rows send an entry depends on the
    number of tokens in a user's cache at run time.
    """

    name: ClassVar[str] = "cache_shift"
    by_counters: ClassVar[bool] = True

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Return 2, the number of router colours: neighbouring rows alternate between two colours.

        Args:
            pattern: Not used; a cache shift has no pattern.
        """
        return SHIFT_COLOURS

    @property
    def messages(self) -> RowShift:
        """Messages from each PE of the last rows to its northern neighbour."""
        return RowShift()


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenWafers(Transfer):
    """Transfer between the wafers of a region that spans several wafers.

    The messages of a communication pattern each go from one column of a wafer to one column of
    another wafer, in all participating rows at once.

    Attributes:
        source_col: Sending column of each wafer, counted from the wafer's first column.
        target_col: Receiving column of each wafer.
        part: Number of elements per message.
        round_count: Number of messages sent sequentially from one wafer to another.
        latencies: Number of times that the transfer waits for a message to pass a link between wafers.
        bytes: Payload in bytes from one wafer to another, excluding padding.
        by_choice: FROM_CHOSEN if only wafers that store selected experts send, TO_CHOSEN if only
            these wafers receive, and 0 if all wafers take part.
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
        """Messages of the pattern between participating wafers, including copies within a PE."""
        site = self.site
        schedule = site.schedule
        if site.chosen_wafers is not None:
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
        """Paths of words between the edge of each wafer and its sending or receiving column."""
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
        """Pairs (sending wafer, receiving wafer) between which messages travel.

        A transfer to or from experts may depend on the experts selected for the current tokens. In
        that case, a pair is included only if the wafer at its position ``chosen_end`` stores such
        an expert.
        """
        pairs = tuple(dict.fromkeys((sender, receiver) for sender, receiver in self._ends if sender != receiver))
        if not self.by_choice or self.site.chosen_wafers is None:
            return pairs
        return tuple(pair for pair in pairs if pair[self.chosen_end] in self.site.chosen_wafers)

    @property
    def chosen_end(self) -> int:
        """Wafer that must store selected experts: 0 for the sender of a pair, 1 for the receiver.

        The sender (0) must store them if experts send their results. The receiver (1) must store
        them if tokens are sent to experts. Other transfers ignore this value.
        """
        return 0 if self.by_choice == FROM_CHOSEN else 1

    @property
    def crossing_bytes(self) -> int:
        """Payload in bytes sent between each pair of wafers, excluding padding."""
        return self.bytes

    @property
    def link_latencies(self) -> int:
        """Number of times that the transfer waits for a message to pass a link between wafers.

        Messages that travel at the same time count once.
        """
        return self.latencies

    @property
    def rounds(self) -> int:
        """Number of messages that one wafer sends to another, one after another."""
        return self.round_count

    @property
    def added_elements(self) -> int:
        """Number of elements of a message from another wafer that a PE adds to its own; else 0."""
        return self.part if np.isin(self.site.schedule.messages[:, 2], COMBINING).any() else 0

    @property
    def _ends(self) -> list[list[int]]:
        """Sending and receiving wafer of each message of the pattern, as a list of pairs."""
        stage = self.site.placed_stage
        return list((self.site.schedule.messages[:, :2] // stage.rect.cols + stage.wafer).tolist())


@lru_cache(maxsize=256)
def _schedule_of_some(schedule: LineSchedule, is_chosen: tuple[bool, ...]) -> LineSchedule:
    """Return a copy of a pattern that contains only some of its messages.

    Equal arguments give the same object, which callers use as a cache key.

    Args:
        schedule: Pattern with all of its messages.
        is_chosen: For each message, whether to include it.
    """
    return schedule.with_messages(is_chosen)
