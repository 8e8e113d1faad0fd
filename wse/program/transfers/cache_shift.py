"""CacheShift: rows pass their oldest cache entry to the row above, to balance what rows hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.transfers.messages import RowShift
from wse.program.transfers.transfer import Transfer
from wse_mappings.patterns.cache_shift import COLOURS
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShift(Transfer):
    """The last rows of a region pass a cache entry up; how many rows, a user's counters say as the step runs."""

    name: ClassVar[str] = "cache_shift"
    by_counters: ClassVar[bool] = True

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Two that alternate by parity of the row."""
        return COLOURS

    @property
    def messages(self) -> RowShift:
        """Each PE of the last rows to its northern neighbour."""
        return RowShift()
