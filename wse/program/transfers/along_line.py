"""AlongLine: a pattern along the rows or the columns of a region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse_mappings.schedule import LineSchedule


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
        """The pattern's own."""
        assert pattern is not None
        return pattern.colours

    @property
    def messages(self) -> LineMessages:
        """The pattern's, all of them on the mesh."""
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
        """Whether all messages are copies on their PE."""
        return not self.site.schedule.travels
