"""Copies of a few outputs along a line of PEs, which shorten their paths to all PEs.

They are used when a vector has fewer elements than the line has PEs. The line is divided into equal
segments, each with a copy of all outputs.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.cuts.split import I32, blocks_in_the_middle, ceil_div


def most_copies(extent: int, parts: int, max_count: int) -> int:
    """Return the maximum number of equal segments of a PE line that can each have all outputs.

    All PEs with outputs have the same number of outputs. The result is 1 if several segments would
    need more than ``max_count`` outputs per PE.

    Args:
        extent: Number of outputs.
        parts: Number of PEs in the line.
        max_count: Maximum number of outputs per PE.

    >>> most_copies(128, 755, 1), most_copies(256, 1170, 1), most_copies(256, 1170, 2)
    (5, 3, 9)
    >>> most_copies(160, 256, 1)
    1
    """
    for copies in range(parts * max_count // max(1, extent), 1, -1):
        if not parts % copies and not extent % ceil_div(extent, parts // copies):
            return copies
    return 1


def copied_blocks(extent: int, parts: int, copies: int) -> I32:
    """Return the outputs of each PE of a line when each of several segments has all outputs.

    Each of ``copies`` equal segments has all ``extent`` outputs, in blocks on its middle PEs
    (`blocks_in_the_middle`). The result is int32 ``[parts, n]``, with -1 for padding.

    >>> copied_blocks(2, 6, 2).tolist()
    [[0], [1], [-1], [0], [1], [-1]]
    """
    return np.tile(blocks_in_the_middle(extent, parts // copies), (copies, 1))
