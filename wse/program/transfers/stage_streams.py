"""Streams from one region to another: a transfer to the next stage on one wafer, a crossing to another wafer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import EdgeStream, Translation
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.cuts.recut import COUNT, cut_anew, whole_tiles
from wse_mappings.cuts.split import blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStream(Transfer):
    """Every PE of some columns of a region sends to PEs of a region of another stage.

    Attributes:
        target_stage: The stage that receives.
        source_col: First column that sends.
        target_col: First column that receives.
        cols: Columns that send.
        bytes: Payload without padding.
        vectors: Vectors that lie over the rows, cut anew where the other region has more rows or fewer; 0: tiles go as
            they are, to the same place or, of rows that hold the same, to rows in proportion.
        extent: Elements of a vector on all rows.
        group, target_group: The groups at which the regions' rows cut it; 0 where they cut it evenly.
        stride: Columns that share the rows among them: row j of those that receive gets its pieces in columns j modulo
            it, and so on.
    """

    by_place: ClassVar[bool] = True

    target_stage: int
    source_col: int
    target_col: int
    cols: int
    bytes: int
    vectors: int
    extent: int
    group: int
    target_group: int
    stride: int

    @property
    def target_elements(self) -> int:
        """Elements of a tile of the region that receives."""
        target_rows = self.site.program.stages[self.target_stage].rect.rows
        if not self.vectors:
            return self.elements
        return self.vectors * len(blocks(self.extent, target_rows, self.target_group)[0])

    @property
    def messages(self) -> Translation:
        """The messages of PEs to those in the other region that hold the same elements."""
        rows, target_rows = (
            stage.rect.rows for stage in (self.site.placed_stage, self.site.program.stages[self.target_stage])
        )
        if self.vectors:
            pieces = cut_anew(self.extent, rows, target_rows, self.group, self.target_group)
        else:
            pieces = whole_tiles(self.elements, rows, target_rows)
        vectors = max(self.vectors, 1)
        return Translation(
            target_stage=self.target_stage,
            source_col=self.source_col,
            target_col=self.target_col,
            cols=self.cols,
            pieces=pieces,
            words=self.site.words(vectors * pieces[:, COUNT]),
            vectors=vectors,
            target_elements=self.target_elements,
            stride=self.stride,
        )

    @property
    def handed_bytes(self) -> int:
        """The stream's payload."""
        return self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(StageStream):
    """A stream to a region of the same wafer, along rows and then along columns.

    Where the receiving stage is on the same PEs, words are copied in their SRAM.
    """

    name: ClassVar[str] = "hand_over"

    @property
    def in_memory(self) -> bool:
        """True if both stages are on the same PEs."""
        return self.site.program.shares_pes(self.site.stage, self.target_stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing(StageStream):
    """A stream to a region of another wafer.

    Words go east along their rows to the edge of their wafer, over the link between the wafers, and on from the west
    edge of the other one.
    """

    name: ClassVar[str] = "cross"
    leaves_wafer: ClassVar[bool] = True

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """The streams of all rows, to the edge of the sending wafer and from that of the receiving one."""
        return tuple(
            EdgeStream(
                wafer=stage.wafer,
                rect=stage.rect,
                first_row=0,
                rows=stage.rect.rows,
                first_col=first_col,
                cols=self.cols,
                words=self.site.words(elements),
                leaving=leaving,
            )
            for stage, first_col, elements, leaving in (
                (self.site.placed_stage, self.source_col, self.elements, True),
                (self.site.program.stages[self.target_stage], self.target_col, self.target_elements, False),
            )
        )

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """The sending stage's wafer and the receiving one's."""
        return ((self.site.placed_stage.wafer, self.site.program.stages[self.target_stage].wafer),)

    @property
    def crossing_bytes(self) -> int:
        """The stream's payload."""
        return self.bytes
