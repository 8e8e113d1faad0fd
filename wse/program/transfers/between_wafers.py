"""BetweenWafers: a pattern between the wafers of one stage, over the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wse.program.transfers.messages import EdgeStream, LineMessages
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.schedule import COMBINING

TO_CHOSEN, FROM_CHOSEN = 1, 2
"""What ``BetweenWafers.by_choice`` says: which end of a message must be a wafer with chosen experts."""


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
        """The pattern's, of the wafers that take part; copies on a PE are among them."""
        site = self.site
        schedule = site.schedule
        if site.chosen is not None:
            crossings = self.crossings
            schedule = schedule.with_messages(
                [sender == receiver or (sender, receiver) in crossings for sender, receiver in self._ends]
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
        """One column to the edge of each wafer that sends, one from the edge of each that receives, pair by pair."""
        site, words = self.site, self.rounds * self.site.words(self.part)
        return tuple(
            EdgeStream(
                wafer=wafer,
                rect=site.placed.rect,
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
        """Which wafer of a pair must hold chosen experts: 0 the one that sends, 1 the one that receives."""
        return 0 if self.by_choice == FROM_CHOSEN else 1

    @property
    def crossing_bytes(self) -> int:
        """Its payload for each pair of wafers."""
        return self.bytes

    @property
    def link_latencies(self) -> int:
        """Those that the compiler counted: messages that go at once wait for one."""
        return self.latencies

    @property
    def rounds(self) -> int:
        """Messages from one wafer to another."""
        return self.round_count

    @property
    def added_elements(self) -> int:
        """A message's, where the pattern combines."""
        return self.part if np.isin(self.site.schedule.messages[:, 2], COMBINING).any() else 0

    @property
    def _ends(self) -> list[list[int]]:
        """The wafers that each message of the pattern goes from and to."""
        stage = self.site.placed
        return list((self.site.schedule.messages[:, :2] // stage.rect.cols + stage.wafer).tolist())
