"""Pieces of a vector that lies over the rows of one region, for the rows of another: who sends which elements to whom.

Columns of the pieces, int64 ``[pieces, 5]``: row that sends, row that receives, first element in the sender's tile,
first in the receiver's, elements.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wse_mappings.cuts.split import ceil_div

I64 = npt.NDArray[np.int64]
SENDER, RECEIVER, FIRST, PLACE, COUNT = range(5)


@lru_cache(maxsize=64)
def cut_anew(extent: int, rows: int, target_rows: int) -> I64:
    """The pieces of ``extent`` elements in blocks over ``rows``, as ``padded_blocks`` has them, for ``target_rows``.

    >>> cut_anew(6, 3, 2).tolist()
    [[0, 0, 0, 0, 2], [1, 0, 0, 2, 1], [1, 1, 1, 0, 1], [2, 1, 0, 1, 2]]
    """
    width, target_width = ceil_div(extent, rows), ceil_div(extent, target_rows)
    start = np.union1d(np.arange(0, extent, width), np.arange(0, extent, target_width)).astype(np.int64)
    sender, first = np.divmod(start, width)
    receiver, place = np.divmod(start, target_width)
    return np.stack([sender, receiver, first, place, np.diff(start, append=extent)], axis=1)


@lru_cache(maxsize=64)
def whole_tiles(elements: int, rows: int, target_rows: int) -> I64:
    """The pieces of tiles that go as they are, row by row; of rows that hold the same where there are more or fewer.

    >>> whole_tiles(7, 2, 3).tolist()
    [[0, 0, 0, 0, 7], [0, 1, 0, 0, 7], [1, 2, 0, 0, 7]]
    """
    receiver = np.arange(target_rows, dtype=np.int64)
    zeros = np.zeros_like(receiver)
    return np.stack([receiver * rows // target_rows, receiver, zeros, zeros, zeros + elements], axis=1)
