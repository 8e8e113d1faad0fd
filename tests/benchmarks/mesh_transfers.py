"""Random transfers on a mesh, as rectangles of links that carry so many words."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.links.link_map import rectangles_of

DIRECTIONS: Final = 5
"""North, east, south, west and the ramp."""
TRANSFERS: Final = 5_000


def transfers(rows: int, cols: int, colours: int) -> I64:
    """Rectangles of random transfers, half multicasts along rows or columns of a region and half shifts inside one.

    Planes are directions north, east, south, west and ramp of each colour. A multicast loads two stretches of links, a
    shift one; both load the ramps of all their PEs.
    """
    random = np.random.default_rng(11)
    found = []
    for number in range(TRANSFERS):
        plane = DIRECTIONS * int(random.integers(colours))
        top, end = np.sort(random.integers(0, rows + 1, 2))
        left, right = np.sort(random.integers(0, cols + 1, 2))
        words = int(random.integers(1, 4097))
        if number % 2:
            root = int(random.integers(left, right + 1))
            found.append((plane + 1, top, end, root, right, words))
            found.append((plane + 3, top, end, left, root, words))
        else:
            found.append((plane + number % 4, top, end, left, right, words))
        found.append((plane + 4, top, end, left, right, words))
    return rectangles_of(*np.array(found, np.int64).T)
