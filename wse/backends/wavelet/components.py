"""Connected components of a graph, and batches of components that one core simulates at a time."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.arrays import I32

SPAN_QUEUES: Final = 96  # queues per batch: 12 KiB of state, which fit into the L1 cache together with the words


def components(count: int, pairs: I32) -> I32:
    """Return the smallest member of each node's connected component, as int32 ``[count]``.

    Every root is attached to the smallest root that an edge leads to, and then every node to its
    root, until nothing changes. Each round removes at least half of the roots that still have an
    edge.

    Args:
        count: Number of nodes.
        pairs: int32 ``[n, 2]``, edges.

    >>> components(5, np.array([[1, 3], [4, 3]])).tolist()
    [0, 1, 2, 1, 1]
    """
    root = np.arange(count, dtype=np.int32)
    sources, targets = pairs[:, 0], pairs[:, 1]
    while True:
        low, high = root[sources], root[targets]
        is_open = low != high
        if not is_open.any():
            return root
        sources, targets, low, high = (
            sources[is_open],
            targets[is_open],
            low[is_open],
            high[is_open],
        )
        np.minimum.at(root, np.maximum(low, high), np.minimum(low, high))
        while True:
            root_of_root = root[root]
            if np.array_equal(root_of_root, root):
                break
            root = root_of_root


def spans(component: I32, queues: int) -> I32:
    """Return the batch of each node, as int32 ``[nodes]``.

    Small components are in one batch, so that a core has work while one of them waits.

    Args:
        component: int32 ``[nodes]``, component of each node; queues come first.
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
