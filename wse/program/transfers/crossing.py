"""Crossing: a stream from a region to one of another wafer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import EdgeStream, Translation
from wse.program.transfers.transfer import Transfer, WaferPair


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing(Transfer):
    """Every PE of some columns of a region sends to its place in a region of another wafer.

    Words go east along their rows to the edge of their wafer, over the link between the wafers, and on from the west
    edge of the other one.

    Attributes:
        target_stage: The stage that receives.
        source_col: First column that sends.
        target_col: First column that receives.
        cols: Columns that send.
        bytes: Payload without padding.
    """

    name: ClassVar[str] = "cross"
    by_place: ClassVar[bool] = True
    leaves_wafer: ClassVar[bool] = True

    target_stage: int
    source_col: int
    target_col: int
    cols: int
    bytes: int

    @property
    def messages(self) -> Translation:
        """Each PE's to its place in the region of the other wafer."""
        return Translation(
            target_stage=self.target_stage, source_col=self.source_col, target_col=self.target_col, cols=self.cols
        )

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """All rows of both regions."""
        return tuple(
            EdgeStream(
                wafer=stage.wafer,
                rect=stage.rect,
                first_row=0,
                rows=stage.rect.rows,
                first_col=first_col,
                cols=self.cols,
                words=self.words,
                leaving=leaving,
            )
            for stage, first_col, leaving in (
                (self.site.placed, self.source_col, True),
                (self.site.program.stages[self.target_stage], self.target_col, False),
            )
        )

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """From the sending stage's wafer to the receiving one's."""
        return ((self.site.placed.wafer, self.site.program.stages[self.target_stage].wafer),)

    @property
    def crossing_bytes(self) -> int:
        """Its payload."""
        return self.bytes

    @property
    def handed_bytes(self) -> int:
        """Its payload."""
        return self.bytes
