"""Operands of kernels that read entries of a KV cache."""

from __future__ import annotations

from typing import NamedTuple


class FoldedEntries(NamedTuple):
    """Addresses and sizes of KV-cache entries that are added to the running softmax of one head.

    Attributes:
        scores, values: Addresses of the scores [T] and of the first entry's values.
        maximum, total, out: Addresses of the running maximum, the running sum of weights, and the
            running sums of weighted values [F].
        T: Number of entries.
        F: Features per entry.
        stride: Distance from the values of one entry to the values of the next, in elements.
    """

    scores: int
    values: int
    maximum: int
    total: int
    out: int
    T: int
    F: int
    stride: int


class VisibleEntries(NamedTuple):
    """Positions that a token attends to, and where to read the position of each KV-cache entry.

    Positions are indices of tokens in the sequence. An entry is visible to the token if its
    position is in the range from ``first`` to ``last``. The positions of neighbouring entries are
    consecutive values of one row of a table.

    Attributes:
        row, col: Row and column of the first entry's position in the table.
        first, last: First and last position that the token attends to.
    """

    row: int
    col: int
    first: int
    last: int
