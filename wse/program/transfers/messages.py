"""Message types: records of which PEs send words to which PEs.

All backends interpret them: execution moves values, the fabric model computes link loads and
cycles, and the wavelet model simulates the words. The path of words between a PE and the edge of a
wafer is an `EdgeStream`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from wse.arrays import I64
from wse_mappings.cuts.split import RECEIVER, SENDER
from wse_mappings.mesh.placement import Rect
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMessages:
    """Messages of a communication pattern, such as an all-reduce, in a rectangle of PEs.

    The pattern runs along all rows, or all columns, of the rectangle at once. Each row or column is
    a line of the pattern.

    Attributes:
        schedule: Messages of the pattern. Columns are numbered through all wafers of the region.
        axis: ROWS or COLUMNS, the direction of the lines.
        round: Iteration of the step's loop. The messages of a line may differ between iterations.
        first_row: First participating row of the region.
        rows: Number of participating rows.
        in_place: True if a message arrives at the same address from which it is sent. Later
            messages then forward received words.
    """

    schedule: LineSchedule
    axis: int
    round: int
    first_row: int
    rows: int
    in_place: bool

    @property
    def with_reduced_round(self) -> LineMessages:
        """Copy for use as a cache key, in which ``round`` is reduced to the smallest equivalent.

        The messages of a pattern repeat after a number of loop iterations. All iterations with the
        same messages therefore have the same key.
        """
        return replace(self, round=self.round % len(self.schedule.variants))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShift:
    """Messages that move KV-cache entries from the last rows of PEs to the rows above them.

    They keep all rows of a region about equally full. How many rows send an entry depends on the
    number of tokens in a user's cache.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Translation:
    """Messages from PEs in some columns of a region to PEs in columns of another region.

    The other region may be on another wafer. The rows of the two regions may divide a vector
    differently, so the vector is sent in pieces.

    Attributes:
        target_stage: Stage of the receiving region.
        source_col: First sending column.
        target_col: First receiving column.
        cols: Number of sending columns.
        pieces: int64 ``[pieces, 5]``, the sending and receiving row of each piece and its elements,
            with the columns that `wse_mappings.cuts.split` defines.
        words: int64 ``[pieces]``, number of words per piece, over all vectors.
        vectors: Number of vectors stored side by side on a PE.
        target_elements: Number of elements that a receiving PE stores, over all vectors.
        stride: Receiving row j gets its pieces in every ``stride``-th column, starting with column
            j mod ``stride``.
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
        """Number of columns of PEs that send each piece of a vector, int64 ``[pieces]``.

        A vector is divided among rows of PEs. A piece is the part that goes from one sending row to
        one receiving row.
        """
        residue = self.pieces[:, RECEIVER] % self.stride
        return np.asarray(-(-(self.cols - residue) // self.stride), np.int64)

    @property
    def sent_words(self) -> list[tuple[int, int, int]]:
        """For each piece of a vector: sending row, receiving row, and number of words.

        A vector is divided among rows of PEs. A piece is the part that goes from one sending row to
        one receiving row of another region.
        """
        ends = self.pieces[:, [SENDER, RECEIVER]].tolist()
        return [(sender, receiver, words) for (sender, receiver), words in zip(ends, self.words.tolist(), strict=True)]


class HostWords(Enum):
    """Kind of data that a transfer between the host and a wafer carries.

    The host sends the token ids of a prompt, and the ids that it has sampled from logits. It
    receives the id of a generated token, or logits.
    """

    TOKENS_IN = auto()  # the prompt
    TOKEN_OUT = auto()
    LOGITS_OUT = auto()
    SAMPLED_IN = auto()  # the ids that the host sampled from the logits


Messages = LineMessages | RowShift | Translation | HostWords


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeStream:
    """Words that PEs send to the east edge of their wafer, or receive from its west edge.

    Attributes:
        wafer: Index of the wafer.
        rect: Rectangle of the region to which the PEs belong.
        first_row: First participating row of the region.
        rows: Number of participating rows.
        first_col: First participating column of the region.
        cols: Number of participating columns.
        words: Number of 32-bit words per PE.
        leaving: True if the words leave the wafer, False if they enter it.
    """

    wafer: int
    rect: Rect
    first_row: int
    rows: int
    first_col: int
    cols: int
    words: int
    leaving: bool
