"""Halo exchange of a five-point stencil: every PE multicasts its words to its four neighbours, all at the same time.

Six colours, so that a PE's own and those of its neighbours all differ: three by column in even rows, three others in
odd ones, shifted by one in every second pair of rows. What a neighbour sent lies in the slot of its colour. Source: the
stencil experiments of github.com/Jorineg/cerebras (one cell a PE, exchange by multicast on six colours).
"""

from __future__ import annotations

import numpy as np

from wse_mappings.plane import STEP, PlaneSchedule, PlaneStream

COLOURS = 6


def halo_colour(row: int, col: int) -> int:
    """Return the colour on which a PE sends.

    >>> [halo_colour(row, 0) for row in range(5)]
    [0, 3, 1, 4, 0]
    """
    return (col + row // 2 % 2) % 3 + 3 * (row % 2)


def halo_exchange(rows: int, cols: int) -> PlaneSchedule:
    """Return the exchange of words between all neighbours of ``rows`` x ``cols`` PEs."""
    streams, stream_colours = [], []
    for row in range(rows):
        for col in range(cols):
            beside = [(side, (row + down, col + right)) for side, (down, right) in enumerate(STEP)]
            near = [(side, pe) for side, pe in beside if 0 <= pe[0] < rows and 0 <= pe[1] < cols]
            if near:
                links = np.array([(row, col, side) for side, _ in near], np.int32)
                receivers = tuple(pe for _, pe in near)
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
