"""Copies of a few outputs along a line: each stretch of it has them all, where one would reach all PEs from afar."""

from __future__ import annotations

import numpy as np

from wse_mappings.cuts.split import I32, blocks_in_the_middle, ceil_div


def most_copies(extent: int, parts: int, most: int) -> int:
    """Return the maximum number of equal segments of ``parts`` that can each have all ``extent`` outputs.

    Parts that have any have as many. Where one stretch asks for more than ``most``, the number is 1.

    >>> [most_copies(128, 755, 1), most_copies(256, 1170, 1), most_copies(256, 1170, 2), most_copies(160, 256, 1)]
    [5, 3, 9, 1]
    """
    for copies in range(parts * most // max(1, extent), 1, -1):
        if not parts % copies and not extent % ceil_div(extent, parts // copies):
            return copies
    return 1


def copied_blocks(extent: int, parts: int, copies: int) -> I32:
    """Return `blocks_in_the_middle` for each of several equal segments, int32 ``[parts, n]``.

    >>> copied_blocks(2, 6, 2).tolist()
    [[0], [1], [-1], [0], [1], [-1]]
    """
    return np.tile(blocks_in_the_middle(extent, parts // copies), (copies, 1))
