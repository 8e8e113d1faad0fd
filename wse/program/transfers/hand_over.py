"""HandOver: a stream from one region to another of the same wafer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import Translation
from wse.program.transfers.transfer import Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(Transfer):
    """Every PE of some columns of a region sends to its place in a region of another stage of its wafer.

    Attributes:
        target_stage: The stage that receives. Where it is on the same PEs, words are copied in their SRAM.
        source_col: First column that sends.
        target_col: First column that receives.
        cols: Columns that send.
        bytes: Payload without padding.
    """

    name: ClassVar[str] = "hand_over"
    by_place: ClassVar[bool] = True

    target_stage: int
    source_col: int
    target_col: int
    cols: int
    bytes: int

    @property
    def messages(self) -> Translation:
        """Each PE's to its place in the other region, along its row and then along its column."""
        return Translation(
            target_stage=self.target_stage, source_col=self.source_col, target_col=self.target_col, cols=self.cols
        )

    @property
    def in_memory(self) -> bool:
        """Whether both stages are on the same PEs."""
        return self.site.program.shares_pes(self.site.stage, self.target_stage)

    @property
    def handed_bytes(self) -> int:
        """Its payload."""
        return self.bytes
