"""Graphs of the simulator: connected components, batches of components, and circular waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from wse.arrays import I32

SPAN_QUEUES: Final = 96  # queues per batch: 12 KiB of state, which fit into the L1 cache together with the words


def components(count: int, pairs: I32) -> I32:
    """Find the connected components of a graph; return the smallest node of each node's component.

    The algorithm repeats two steps until no edge joins two components:

    1. Attach each root (node that represents a component) to the smallest root to which one of its
       edges leads. This removes at least half of the roots that still have an edge.
    2. Attach every node directly to its root.

    Args:
        count: Number of nodes.
        pairs: int32 ``[n, 2]``: edges.

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
        sources, targets, low, high = (nodes[is_open] for nodes in (sources, targets, low, high))
        np.minimum.at(root, np.maximum(low, high), np.minimum(low, high))
        while True:
            root_of_root = root[root]
            if np.array_equal(root_of_root, root):
                break
            root = root_of_root


def spans(component: I32, queues: int) -> I32:
    """Divide connected components into batches that are simulated one after another.

    A batch contains whole components, with a total of SPAN_QUEUES queues or slightly more. This is
    small enough for the processor's cache, and large enough that the simulator has work while one
    component waits.

    Args:
        component: int32 ``[nodes]``: component of each node. Queues come before other nodes.
        queues: Number of nodes that are queues.

    Returns:
        int32 ``[nodes]``: batch of each node.
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


def circular_wait(starts: Iterable[int], waits_for: Callable[[int], Iterable[int]]) -> list[int]:
    """Find nodes that wait for each other in a circle; return them in order, or an empty list.

    The search is depth-first from each start.

    Args:
        starts: Nodes at which the search starts.
        waits_for: Function that returns the nodes that a node waits for.

    >>> circular_wait([0], lambda node: {0: [1], 1: [2, 3], 3: [1]}.get(node, []))
    [1, 3]
    """
    finished_nodes: set[int] = set()
    for start in starts:
        path, place = [start], {start: 0}
        branches = [iter(waits_for(start))]
        while path:
            next_node = next(branches[-1], None)
            if next_node is None:
                branches.pop()
                place.pop(path[-1])
                finished_nodes.add(path.pop())
            elif next_node in place:
                return path[place[next_node] :]
            elif next_node not in finished_nodes:
                place[next_node] = len(path)
                path.append(next_node)
                branches.append(iter(waits_for(next_node)))
    return []
