"""Connected components by array arithmetic, and spans of them that one core runs at a time."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.arrays import I32

SPAN_QUEUES: Final = 96  # 12 KiB of state, which the nearest cache stores beside the words of memory


def components(count: int, pairs: I32) -> I32:
    """Return the smallest member of each node's connected component, int32 ``[count]``, for edges ``[n, 2]``.

    Every root hooks onto the smallest root that an edge leads to, then every node onto its root, until nothing changes:
    in each round at least half of the roots that still have an edge go.

    >>> components(5, np.array([[1, 3], [4, 3]])).tolist()
    [0, 1, 2, 1, 1]
    """
    root = np.arange(count, dtype=np.int32)
    sources, targets = pairs[:, 0], pairs[:, 1]
    while True:
        low, high = root[sources], root[targets]
        joined = low != high
        if not joined.any():
            return root
        sources, targets, low, high = sources[joined], targets[joined], low[joined], high[joined]
        np.minimum.at(root, np.maximum(low, high), np.minimum(low, high))
        while True:
            above = root[root]
            if np.array_equal(above, root):
                break
            root = above


def spans(component: I32, queues: int) -> I32:
    """Return the batch of each node, int32 ``[nodes]``.

    Small components share a batch, so that a core has work while one waits.

    Args:
        component: int32 ``[nodes]``, queues first.
        queues: Number of nodes that are queues.
    """
    names, label = np.unique(component, return_inverse=True)
    sizes = np.bincount(label[:queues], minlength=len(names))
    span = np.empty(len(names), np.int32)
    number, room = -1, 0
    for i, size in enumerate(sizes.tolist()):
        if room <= 0:
            number, room = number + 1, SPAN_QUEUES
        span[i] = number
        room -= size
    return span[label]
