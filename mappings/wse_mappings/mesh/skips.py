"""Which PEs of each row are skipped, so that columns of the others stay as straight as they can.

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


def skipped(gone: Bools, count: int) -> I64:
    """int64 ``[rows, count]``: the columns that each row skips, ascending, those of its ``gone`` PEs among them.

    Args:
        gone: bool ``[rows, cols]``: at most ``count`` in a row.
        count: Skips of a row.
    """
    rows = gone.shape[0]
    places = _first_places(gone, count)
    found = np.empty((rows, count), np.int64)
    for row in range(rows):
        dead = np.flatnonzero(gone[row])
        if len(dead):
            places = moved(places, dead)
        found[row] = places
    return found


def moved(places: I64, wanted: I64) -> I64:
    """Skips after some of them moved to where they are ``wanted``, the shortest way in all; both ascending.

    >>> moved(np.array([2, 9]), np.array([7])).tolist()
    [2, 7]
    """
    cost = np.zeros(len(places) + 1)  # of serving the wants so far by so many of the first skips
    table = [cost]
    for want in wanted.tolist():
        served = cost[:-1] + np.abs(places - want)
        cost = np.minimum.accumulate(np.append(np.inf, served))
        table.append(cost)
    after, left = places.copy(), len(places)
    for want, cost in zip(wanted[::-1].tolist(), table[:0:-1], strict=True):
        left = int(np.searchsorted(-cost[: left + 1], -cost[left]))  # the fewest first skips at that cost
        left -= 1
        after[left] = want
    return np.sort(after)


def _first_places(gone: Bools, count: int) -> I64:
    """Where skips begin: at the columns of the first dead PEs from the north, and at the east end."""
    _, cols = np.nonzero(gone)
    _, first = np.unique(cols, return_index=True)
    places = cols[np.sort(first)][:count]
    rest = np.setdiff1d(np.arange(gone.shape[1]), places)[::-1][: count - len(places)]
    return np.sort(np.append(places, rest)).astype(np.int64)
