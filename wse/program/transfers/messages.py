"""Forms of messages: which PEs send words to which; values, loads, cycles and wavelets follow from them.

Execution moves values by them, the fabric model loads links and counts cycles by them, and the wavelet model lays them
on its machine. The way of words to the edge of a wafer, and from it, is an `EdgeStream`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from wse.arrays import I64
from wse_mappings.cuts.recut import RECEIVER, SENDER
from wse_mappings.mesh.placement import Rect
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMessages:
    """A pattern on lines of a stage's region, along ``axis``.

    Attributes:
        schedule: The pattern's messages; columns are counted through all wafers of the stage.
        axis: ROWS or COLUMNS.
        round: The turn of the loop, which chooses the lines' variants.
        first_row: First row of the region that takes part.
        rows: Rows that take part.
        in_place: Whether messages arrive where they are sent from, so that later ones send on what arrived.
    """

    schedule: LineSchedule
    axis: int
    round: int
    first_row: int
    rows: int
    in_place: bool

    @property
    def in_one_turn(self) -> LineMessages:
        """These messages with their round counted modulo the rounds of the schedule."""
        return replace(self, round=self.round % len(self.schedule.variants))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShift:
    """The last rows of a region pass words to the row above: as many rows as the cache of a user says."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Translation:
    """Every PE of some columns of a region sends to PEs of a column of another region, maybe on another wafer.

    Attributes:
        target_stage: The stage whose region gets the words.
        source_col: First column that sends.
        target_col: First column that receives.
        cols: Columns that send.
        pieces: int64 ``[pieces, 5]``: rows and elements of a vector's pieces, as `wse_mappings.cuts.recut` has them.
        words: int64 ``[pieces]``: words of each piece, of all vectors.
        vectors: Vectors that are side by side on a PE.
        target_elements: Elements of the receivers' tiles, of all vectors.
        stride: Row j of those that receive gets its pieces in every ``stride``-th column, from column j modulo it on.
    """

    target_stage: int
    source_col: int
    target_col: int
    cols: int
    pieces: I64
    words: I64
    vectors: int
    target_elements: int
    stride: int

    @property
    def columns(self) -> I64:
        """int64 ``[pieces]``: columns that send each piece."""
        residue = self.pieces[:, RECEIVER] % self.stride
        return np.asarray(-(-(self.cols - residue) // self.stride), np.int64)

    @property
    def sent_words(self) -> list[tuple[int, int, int]]:
        """The row that sends, the row that receives, and the words, of every piece."""
        ends = self.pieces[:, [SENDER, RECEIVER]].tolist()
        return [(sender, receiver, words) for (sender, receiver), words in zip(ends, self.words.tolist(), strict=True)]


class HostWords(Enum):
    """The words that go to the host or come from it."""

    TOKENS_IN = auto()  # the prompt
    TOKEN_OUT = auto()
    LOGITS_OUT = auto()
    DRAWN_IN = auto()  # the id that the host drew from the logits


Messages = LineMessages | RowShift | Translation | HostWords


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeStream:
    """Columns of some rows of a region send east to the edge of their wafer, or receive from its west edge.

    Attributes:
        wafer: The wafer.
        rect: The region.
        first_row: First row of the region that takes part.
        rows: Rows that take part.
        first_col: First column of the region that takes part.
        cols: Columns that take part.
        words: 32-bit words of each PE.
        leaving: Whether they leave the wafer, rather than enter it.
    """

    wafer: int
    rect: Rect
    first_row: int
    rows: int
    first_col: int
    cols: int
    words: int
    leaving: bool
