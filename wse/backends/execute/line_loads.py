"""Words on links of messages whose way does not depend on what PEs store: a pass adds as many each time it is run.

The kernels that move such messages count nothing. What each transfer adds is computed from its messages when somebody
asks, and multiplied with how often it was executed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import I64
from wse.number_formats import WORD_BYTES
from wse_mappings.link_words import words_on_links
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLoads:
    """The words on links of one transfer along the rows or columns of a region.

    Attributes:
        schedule: Its pattern.
        elements: Elements of all parts of a message.
        element_bytes: Bytes of one.
        round: The round of the pattern, which chooses the lines' variants.
        first_line: The first line that takes part.
        lines: Lines that do.
        along_columns: Whether lines are columns.
    """

    schedule: LineSchedule
    elements: int
    element_bytes: int
    round: int
    first_line: int
    lines: int
    along_columns: bool

    def add(self, links: I64, times: int) -> None:
        """Add the words of ``times`` transfers to int64 ``[4, rows, cols]``, by the direction in which they leave."""
        by_line = links.transpose(0, 2, 1) if self.along_columns else links
        onward, back = (SOUTH, NORTH) if self.along_columns else (EAST, WEST)
        lines = slice(self.first_line, self.first_line + self.lines)
        words = -(-self.elements * self.element_bytes // WORD_BYTES)
        kinds, which = np.unique(self.schedule.variants[self.round, lines], return_inverse=True)
        added = times * words_on_links(self.schedule, words, kinds, np.arange(len(kinds)), len(kinds))[:, which]
        by_line[onward, lines] += added[0]
        by_line[back, lines] += added[1]
