"""Words on links of messages whose way does not depend on what PEs hold: a pass adds as many each time it is run.

The kernels that move such messages count nothing. What each transfer adds is worked out from its messages when somebody
asks, and multiplied with how often it was carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from wse.arrays import I32, I64
from wse.number_formats import WORD_BYTES
from wse_mappings.schedule import Arrival, LineSchedule

NORTH, EAST, SOUTH, WEST = range(4)
"""Directions of link counts."""
ARRIVAL: Final = 2
"""Where a stretch has what happens on arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLoads:
    """The words of one transfer along the rows or the columns of a region.

    Attributes:
        schedule: Its pattern.
        elements: Elements of all parts of a message.
        element_bytes: Bytes of one.
        round: The turn of the loop, which chooses the lines' variants.
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
        """Add the words of so many times to int64 ``[4, rows, cols]``, counted by the direction in which they leave."""
        by_line = links.transpose(0, 2, 1) if self.along_columns else links
        onward, back = (SOUTH, NORTH) if self.along_columns else (EAST, WEST)
        variants = self.schedule.variants
        chosen = variants[self.round % len(variants), self.first_line : self.first_line + self.lines]
        messages = stretches_of(self.schedule, self.elements, self.element_bytes, on_mesh=True)
        for variant in np.unique(chosen).tolist():
            span = slice(int(self.schedule.first[variant]), int(self.schedule.first[variant + 1]))
            words = times * words_of_line(messages[span], by_line.shape[2])
            places = self.first_line + np.flatnonzero(chosen == variant)
            by_line[onward, places] += words[0]
            by_line[back, places] += words[1]


def words_of_line(stretches: I32, length: int) -> I64:
    """int64 ``[2, length]``: words that leave each PE of a line to the next, and to the one before, of messages."""
    start, end, _, _, _, words = stretches[stretches[:, ARRIVAL] != Arrival.COPY].astype(np.int64).T
    steps = np.zeros((2, length + 1), np.int64)
    onward, back = np.where(start < end, words, 0), np.where(end < start, words, 0)
    np.add.at(steps[0], start, onward)
    np.add.at(steps[0], end, -onward)
    np.add.at(steps[1], end + 1, back)
    np.add.at(steps[1], start + 1, -back)
    return np.asarray(steps.cumsum(axis=1)[:, :length], np.int64)


@lru_cache(maxsize=64)
def stretches_of(schedule: LineSchedule, elements: int, element_bytes: int, *, on_mesh: bool) -> I32:
    """int32 ``[m, 6]``: the messages of a schedule, the first element and elements of each, and its words on a mesh.

    Parts are cut where words end.
    """
    words = -(-elements * element_bytes // WORD_BYTES)
    spans = schedule.spans_of_messages(words)
    begin, end = np.minimum(spans * WORD_BYTES // element_bytes, elements)
    stretches = np.stack([begin, end - begin, (spans[1] - spans[0]) * on_mesh], axis=1)
    return np.concatenate([schedule.messages, stretches.astype(np.int32)], axis=1)
