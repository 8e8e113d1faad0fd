"""PEs that each row skips, so that columns of the others stay as straight as they can.

A row skips its dead PEs, and live ones besides until it has as many skips as every other. A skip stays in its column
until a dead PE calls one away; then it moves, and the columns that it passes go one PE aside there. That is the
k-server problem on a line (Manasse, McGeoch and Sleator, 1990), skips being the servers and dead PEs what they serve;
each row is served by the least way from the one before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


def skipped_columns(unreachable: Bools, count: int) -> I64:
    """Return the columns that each row skips, int64 ``[rows, count]``, ascending, its ``unreachable`` PEs included.

    Args:
        unreachable: bool ``[rows, cols]``: at most ``count`` in a row.
        count: Skips of a row.
    """
    rows = unreachable.shape[0]
    places = _first_places(unreachable, count)
    columns = np.empty((rows, count), np.int64)
    for row in range(rows):
        dead = np.flatnonzero(unreachable[row])
        if len(dead):
            places = move_skips(places, dead)
        columns[row] = places
    return columns


def move_skips(places: I64, targets: I64) -> I64:
    """Return the columns of skips after some moved to ``targets``, with the minimum total distance.

    >>> move_skips(np.array([2, 9]), np.array([7])).tolist()
    [2, 7]
    """
    cost = np.zeros(len(places) + 1)  # minimum distance for the targets so far, by the number of first skips used
    table = [cost]
    for target in targets.tolist():
        served = cost[:-1] + np.abs(places - target)
        cost = np.minimum.accumulate(np.append(np.inf, served))
        table.append(cost)
    after, remaining = places.copy(), len(places)
    for target, cost in zip(targets[::-1].tolist(), table[:0:-1], strict=True):
        remaining = int(
            np.searchsorted(-cost[: remaining + 1], -cost[remaining])
        )  # the fewest first skips at that cost
        remaining -= 1
        after[remaining] = target
    return np.sort(after)


def _first_places(unreachable: Bools, count: int) -> I64:
    """Return the initial columns of skips: those of the first dead PEs from the north, and others at the east end."""
    _, cols = np.nonzero(unreachable)
    _, first = np.unique(cols, return_index=True)
    places = cols[np.sort(first)][:count]
    free_places = np.setdiff1d(np.arange(unreachable.shape[1]), places)[::-1][: count - len(places)]
    return np.sort(np.append(places, free_places)).astype(np.int64)
