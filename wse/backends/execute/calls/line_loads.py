"""Link traffic of messages whose paths do not depend on the contents of PEs.

The kernels that move such messages count nothing. The words of each transfer are computed from its
messages when they are requested, and multiplied by the number of times that the transfer was
executed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import I64
from wse.number_formats import WORD_BYTES
from wse_mappings.outcome import words_on_links
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLoads:
    """Words that one transfer along rows or columns of PEs sends over links, as a key for counting.

    The words are not counted when the transfer is executed. Executions of equal transfers are
    counted, and `add` later adds their words to the link counts.

    Attributes:
        schedule: Communication pattern of the transfer.
        elements: Number of elements of a message that is not divided into parts.
        element_bytes: Bytes per element.
        round: Round of the pattern, which selects the list of messages that each line executes.
        first_line: First participating line (row or column).
        lines: Number of participating lines.
        along_columns: True if lines are columns.
    """

    schedule: LineSchedule
    elements: int
    element_bytes: int
    round: int
    first_line: int
    lines: int
    along_columns: bool

    def add(self, links: I64, times: int) -> None:
        """Add the words sent by ``times`` executions of the transfer to the link counts.

        Args:
            links: int64 ``[4, rows, cols]``: words on the four outgoing links of each PE. Updated
                in place.
            times: Number of executions.
        """
        by_line = links.transpose(0, 2, 1) if self.along_columns else links
        forward, backward = (SOUTH, NORTH) if self.along_columns else (EAST, WEST)
        lines = slice(self.first_line, self.first_line + self.lines)
        words = ceil_div(self.elements * self.element_bytes, WORD_BYTES)
        kinds, variant_of_line = np.unique(self.schedule.variants[self.round, lines], return_inverse=True)
        added_words = (
            times * words_on_links(self.schedule, words, kinds, np.arange(len(kinds)), len(kinds))[:, variant_of_line]
        )
        by_line[forward, lines] += added_words[0]
        by_line[backward, lines] += added_words[1]
