"""Copies of a few outputs along a line of PEs, which shorten their paths to all PEs.

They are used when a vector has fewer elements than the line has PEs. The line is divided into equal
segments, each with a copy of all outputs.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.cuts.split import I32, blocks_in_the_middle
from wse_mappings.rounding import ceil_div


def most_copies(extent: int, parts: int, max_count: int) -> int:
    """Return how many copies of a vector of outputs fit on a line of PEs.

    The line is divided into equal segments, and each segment stores all outputs. All PEs that store
    outputs must store the same number of them. The result is 1 if two or more segments are
    impossible.

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
    """Return which outputs each PE of a line stores if there are several copies of all outputs.

    The line of ``parts`` PEs is divided into ``copies`` equal segments. Each stores all ``extent``
    outputs, in blocks on its middle PEs (`blocks_in_the_middle`).

    Returns:
        int32 ``[parts, n]``, with -1 for padding.

    >>> copied_blocks(2, 6, 2).tolist()
    [[0], [1], [-1], [0], [1], [-1]]
    """
    return np.tile(blocks_in_the_middle(extent, parts // copies), (copies, 1))
