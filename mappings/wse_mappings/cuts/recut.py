"""Redistribution of a vector across the rows of another region: who sends which elements to whom.

The columns of the result, int64 ``[pieces, 5]``, are: sending row, receiving row, first element in
the sender's tile, first element in the receiver's tile, number of elements.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wse_mappings.cuts.split import I32, blocks

I64 = npt.NDArray[np.int64]
SENDER, RECEIVER, FIRST, PLACE, COUNT = range(5)


@lru_cache(maxsize=64)
def cut_anew(extent: int, rows: int, target_rows: int, group: int = 0, target_group: int = 0) -> I64:
    """Return the transfers that move a vector from ``rows`` rows to ``target_rows`` rows of PEs.

    The vector is partitioned across the rows of one region and must be redistributed across the
    rows of another. Each transfer moves consecutive elements, called a piece, from one row to
    another.

    Args:
        extent: Number of elements.
        rows, target_rows: Number of rows of the sending and the receiving region.
        group, target_group: Number of elements to keep together when dividing the vector over the
            rows of each region; 0 to divide it evenly.

    Returns:
        int64 ``[pieces, 5]``: sending row, receiving row, first element in the sender's tile, first
        element in the receiver's tile, number of elements.

    >>> cut_anew(6, 3, 2).tolist()
    [[0, 0, 0, 0, 2], [1, 0, 0, 2, 1], [1, 1, 1, 0, 1], [2, 1, 0, 1, 2]]
    """
    source, target = blocks(extent, rows, group), blocks(extent, target_rows, target_group)
    start = np.union1d(_starts(source), _starts(target))
    ends = [np.searchsorted(_starts(cut), start, side="right") - 1 for cut in (source, target)]
    offsets = [start - _starts(cut)[row] for cut, row in zip((source, target), ends, strict=True)]
    return np.stack([*ends, *offsets, np.diff(start, append=extent)], axis=1)


def _starts(cut: I32) -> I64:
    """Return the first element of each row that stores any elements, int64 ``[n]``.

    Args:
        cut: int32 ``[rows, n]``: elements of each row, with -1 for padding. Rows without elements
            come last.
    """
    return np.asarray(cut[cut[:, 0] >= 0, 0], np.int64)


def whole_tiles(elements: int, rows: int, target_rows: int) -> I64:
    """Return the transfers that copy whole tiles from ``rows`` rows to ``target_rows`` rows of PEs.

    Each receiving row gets all ``elements`` elements of one sending row.

    Returns:
        int64 ``[transfers, 5]``: sending row, receiving row, first element in the sender's tile,
        first element in the receiver's tile, number of elements.

    >>> whole_tiles(7, 2, 3).tolist()
    [[0, 0, 0, 0, 7], [0, 1, 0, 0, 7], [1, 2, 0, 0, 7]]
    """
    receiver = np.arange(target_rows, dtype=np.int64)
    zeros = np.zeros_like(receiver)
    return np.stack([receiver * rows // target_rows, receiver, zeros, zeros, zeros + elements], axis=1)
