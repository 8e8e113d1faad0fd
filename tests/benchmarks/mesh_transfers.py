"""Random transfers on a mesh, each described by rectangles of links and the words on each link."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.links.link_map import rectangles_of

DIRECTIONS: Final = 5
"""North, east, south, west and the ramp."""
TRANSFERS: Final = 5_000


def transfers(rows: int, cols: int, colours: int) -> I64:
    """Return the rectangles of links that random transfers use.

    Half of the transfers are multicasts along the rows of a random rectangle of PEs. They use one
    rectangle of links on each side of the root's column. The other half are shifts, which use one
    rectangle of links. All of them also use the ramps (links between a router and its PE) of their
    rectangle.

    Args:
        rows, cols: Size of the mesh.
        colours: Number of colours (routes); each transfer uses a random one.

    Returns:
        Rectangles for ``link_map``. Each is in a plane, which stands for one colour and one of the
        directions north, east, south, west and ramp.
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
