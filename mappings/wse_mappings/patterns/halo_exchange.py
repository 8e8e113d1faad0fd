"""Halo exchange of a five-point stencil: all PEs multicast to their four neighbours at once.

It uses six colours, so that the colours of a PE and of its neighbours all differ: three by column
in even rows and three others in odd rows, shifted by one in every second pair of rows. A PE stores
the words of a neighbour in the slot of that neighbour's colour. Source: the stencil experiments of
github.com/Jorineg/cerebras (one cell per PE, exchange by multicast on six colours).
"""

from __future__ import annotations

import numpy as np

from wse_mappings.plane import STEP, PlaneSchedule, PlaneStream

COLOURS = 6


def halo_colour(row: int, col: int) -> int:
    """Return the colour on which a PE sends its words in a halo exchange.

    A colour is a route that routers are configured for. The colours of a PE and of its neighbours
    differ.

    >>> [halo_colour(row, 0) for row in range(5)]
    [0, 3, 1, 4, 0]
    """
    return (col + row // 2 % 2) % 3 + 3 * (row % 2)


def halo_exchange(rows: int, cols: int) -> PlaneSchedule:
    """Return the halo exchange, in which every PE sends its words to its four neighbours at once.

    ``rows`` and ``cols`` are the size of the rectangle of PEs.
    """
    streams, stream_colours = [], []
    for row in range(rows):
        for col in range(cols):
            sides = [(side, (row + row_step, col + col_step)) for side, (row_step, col_step) in enumerate(STEP)]
            neighbours = [(side, pe) for side, pe in sides if 0 <= pe[0] < rows and 0 <= pe[1] < cols]
            if neighbours:
                links = np.array([(row, col, side) for side, _ in neighbours], np.int32)
                receivers = tuple(pe for _, pe in neighbours)
                colour = halo_colour(row, col)
                streams.append(PlaneStream(source=(row, col), links=links, receivers=receivers, slot=colour))
                stream_colours.append(colour)
    return PlaneSchedule(
        name="halo_exchange",
        rows=rows,
        cols=cols,
        streams=tuple(streams),
        stream_colours=tuple(stream_colours),
        colours=COLOURS,
    )
