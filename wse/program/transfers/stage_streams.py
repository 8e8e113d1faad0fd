"""Transfers between the regions of two stages, on the same wafer or to another wafer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import EdgeStream, Translation
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.cuts.split import COUNT, blocks, redistribution, whole_tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStream(Transfer):
    """Transfer in which PEs of a region send words to PEs in the region of another stage.

    Attributes:
        target_stage: Index of the receiving stage.
        source_col: First sending column.
        target_col: First receiving column.
        cols: Number of sending columns.
        bytes: Payload in bytes, excluding padding.
        vectors: Number of vectors that are divided among the rows. If the regions have different
            row counts, the receiving rows divide the vectors differently. 0 means that the words of
            a PE are sent as a whole: with R sending and S receiving rows, receiving row j gets the
            words of row j * R // S.
        extent: Number of elements per vector, over all rows.
        group, target_group: Group sizes at which the rows of the two regions divide a vector; 0 if
            they divide it evenly.
        stride: Number of columns among which the receiving rows are divided. Row j gets its pieces
            in every ``stride``-th column, starting with column j mod ``stride``.
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
        """Number of elements that each PE of the receiving region stores."""
        target_rows = self.site.program.stages[self.target_stage].rect.rows
        if not self.vectors:
            return self.elements
        return self.vectors * len(blocks(self.extent, target_rows, self.target_group)[0])

    @property
    def messages(self) -> Translation:
        """Messages from each PE to the PEs of the receiving region that need its elements."""
        rows, target_rows = (
            stage.rect.rows for stage in (self.site.placed_stage, self.site.program.stages[self.target_stage])
        )
        if self.vectors:
            pieces = redistribution(self.extent, rows, target_rows, self.group, self.target_group)
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
    def stage_transfer_bytes(self) -> int:
        """Payload of the transfer in bytes."""
        return self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTransfer(StageStream):
    """Transfer to a region on the same wafer: words travel along rows, then along columns.

    If the receiving stage is on the same PEs, the words are copied within their SRAM.
    """

    name: ClassVar[str] = "hand_over"

    @property
    def in_memory(self) -> bool:
        """True if the sending and the receiving stage are on the same PEs, so no link is used."""
        return self.site.program.shares_pes(self.site.stage, self.target_stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing(StageStream):
    """Transfer to a region on another wafer.

    Words travel east along their rows to the edge of the wafer, over the link between the wafers,
    and from the west edge of the other wafer to the receiving PEs.
    """

    name: ClassVar[str] = "cross"
    leaves_wafer: ClassVar[bool] = True

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """Streams on both wafers: to the edge of the sending one, and from the edge of the receiving one."""
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
        """One pair: the wafer of the sending stage and the wafer of the receiving stage."""
        return ((self.site.placed_stage.wafer, self.site.program.stages[self.target_stage].wafer),)

    @property
    def crossing_bytes(self) -> int:
        """Payload of the transfer in bytes."""
        return self.bytes
