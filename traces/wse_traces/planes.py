"""What is recorded for every PE of a wafer, a part at a time, so that nobody has to load whole planes."""

from __future__ import annotations

from collections.abc import Iterator

from wse_traces.read import Array, Trace
from wse_traces.schema import BY_PATH, chunk_of


def pieces(trace: Trace, path: str, index: int) -> Iterator[tuple[int, int, int, Array]]:
    """A plane with directions, a chunk at a time: direction, first row, first column and the values ``[row, col]``.

    Args:
        trace: An open trace.
        path: ``links/words`` or ``links/patterns/words``.
        index: The wafer or the pattern.

    Raises: TraceError if the dataset is missing, deviates from the schema or is damaged.
    """
    column = trace[path]
    _, directions, rows, cols = column.shape
    *_, tall, wide = chunk_of(BY_PATH[path], trace.header)  # as it is written
    for direction in range(directions):
        for row in range(0, rows, tall):
            for col in range(0, cols, wide):
                yield direction, row, col, column[index, direction, row : row + tall, col : col + wide]
