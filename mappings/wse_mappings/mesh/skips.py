"""PEs that each row skips, chosen so that logical columns stay as straight as possible.

A row skips its dead PEs, plus enough live PEs to have as many skips as every other row. A skip
stays in its column from row to row until it is needed for a dead PE elsewhere. Then it moves, and
the logical columns between its old and its new place shift by one PE. This is the k-server problem
on a line (Manasse, McGeoch and Sleator, 1990), with skips as servers and dead PEs as requests. For
each row, the skips move from the previous row by the minimum total distance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


def skipped_columns(unreachable: Bools, count: int) -> I64:
    """Return the columns that each row omits, in ascending order, int64 ``[rows, count]``.

    Each row omits its unreachable PEs and, if there are fewer than ``count``, some usable ones. The
    columns change as little as possible from row to row.

    Args:
        unreachable: bool ``[rows, cols]``: PEs that must be omitted, at most ``count`` per row.
        count: Number of PEs that each row omits.
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
    """Move skips (columns that a row omits) to the columns that the next row must omit.

    The total distance is as small as possible.

    Args:
        places: Columns of the skips, in ascending order.
        targets: Columns that must be skipped, in ascending order.

    Returns:
        The columns of all skips after the moves, in ascending order.

    >>> move_skips(np.array([2, 9]), np.array([7])).tolist()
    [2, 7]
    """
    # Minimum distance for the targets so far, by the number of first skips that may serve them.
    cost = np.zeros(len(places) + 1)
    table = [cost]
    for target in targets.tolist():
        cost_with_target = cost[:-1] + np.abs(places - target)
        cost = np.minimum.accumulate(np.append(np.inf, cost_with_target))
        table.append(cost)
    moved_places, remaining_skips = places.copy(), len(places)
    for target, cost in zip(targets[::-1].tolist(), table[:0:-1], strict=True):
        # The fewest first skips with the same cost.
        remaining_skips = int(np.searchsorted(-cost[: remaining_skips + 1], -cost[remaining_skips]))
        remaining_skips -= 1
        moved_places[remaining_skips] = target
    return np.sort(moved_places)


def _first_places(unreachable: Bools, count: int) -> I64:
    """Return the columns that the skips have before the first row. A skip is a PE that a row omits.

    They are the columns of the northernmost unreachable PEs. If there are fewer than ``count``, the
    other skips are at the east end.
    """
    _, cols = np.nonzero(unreachable)
    _, first = np.unique(cols, return_index=True)
    places = cols[np.sort(first)][:count]
    free_places = np.setdiff1d(np.arange(unreachable.shape[1]), places)[::-1][: count - len(places)]
    return np.sort(np.append(places, free_places)).astype(np.int64)
