"""Multicast from the north-west corner of a rectangle: along the first row, then down every column.

It uses one colour. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv
2404.15888 (2D broadcast).
"""

from __future__ import annotations

import numpy as np

from wse_mappings.plane import EAST, SOUTH, PlaneSchedule, PlaneStream, straight


def corner_multicast(rows: int, cols: int) -> PlaneSchedule:
    """Return the multicast from PE (0, 0) to all of ``rows`` x ``cols`` PEs."""
    links = [straight(0, 0, EAST, cols - 1), *(straight(0, col, SOUTH, rows - 1) for col in range(cols))]
    receivers = tuple((row, col) for row in range(rows) for col in range(cols) if row or col)
    stream = PlaneStream(source=(0, 0), links=np.concatenate(links), receivers=receivers)
    streams = (stream,) if receivers else ()
    return PlaneSchedule(
        name="corner_multicast", rows=rows, cols=cols, streams=streams, stream_colours=(0,) * len(streams), colours=1
    )
