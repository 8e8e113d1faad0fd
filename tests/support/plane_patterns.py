"""Patterns on rectangles whose streams branch, for tests of the wavelet reference.

No command uses them. Their published times are compared with those of the reference.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.plane import EAST, SOUTH, STEP, PlaneSchedule, PlaneStream, straight

HALO_COLOURS = 6


def corner_multicast(rows: int, cols: int) -> PlaneSchedule:
    """Return the multicast from PE (0, 0): along the first row, then down every column.

    It uses one colour. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv
    2404.15888 (2D broadcast).
    """
    links = [straight(0, 0, EAST, cols - 1), *(straight(0, col, SOUTH, rows - 1) for col in range(cols))]
    receivers = tuple((row, col) for row in range(rows) for col in range(cols) if row or col)
    stream = PlaneStream(source=(0, 0), links=np.concatenate(links), receivers=receivers)
    streams = (stream,) if receivers else ()
    return PlaneSchedule(
        name="corner_multicast", rows=rows, cols=cols, streams=streams, stream_colours=(0,) * len(streams), colours=1
    )


def halo_colour(row: int, col: int) -> int:
    """Return the colour on which a PE sends its words in a halo exchange.

    A colour is a route that routers are configured for. The colours of a PE and of its neighbours
    differ.

    >>> [halo_colour(row, 0) for row in range(5)]
    [0, 3, 1, 4, 0]
    """
    return (col + row // 2 % 2) % 3 + 3 * (row % 2)


def halo_exchange(rows: int, cols: int) -> PlaneSchedule:
    """Return the halo exchange of a five-point stencil: every PE multicasts to its four neighbours.

    The six colours make those of a PE and of its neighbours differ: three by column in even rows
    and three others in odd rows, shifted by one in every second pair of rows. A PE stores the words
    of a neighbour in the slot of that neighbour's colour. Source: the stencil experiments of
    github.com/Jorineg/cerebras (one cell per PE, exchange by multicast on six colours).
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
        colours=HALO_COLOURS,
    )
