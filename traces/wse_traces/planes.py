"""Parts of what is recorded for every PE of a wafer, so that nobody has to load whole planes for a few values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wse_traces.check import dataset_of
from wse_traces.errors import TraceError
from wse_traces.read import Array, Trace


def plane_part(trace: Trace, path: str, at: tuple[Any, ...]) -> Array:
    """``dataset[at]``, whatever numpy indices and slices ``at`` has; only the chunks that hold it are read.

    Args:
        trace: An open trace.
        path: A dataset with the axes ``row`` and ``col``.
        at: An index, or a slice, for each axis; the first within ``trace.rows`` of the dataset's table.

    Raises: TraceError if the dataset is missing, deviates from the schema or is damaged.
    """
    trace.column(path, 0, 0)  # which checks the description
    try:
        return np.asarray(dataset_of(trace.file, path)[at])
    except (OSError, RuntimeError) as error:
        message = f"{trace.path}: {path}: the data is damaged ({error}); make the trace again"
        raise TraceError(message) from error


def pieces(trace: Trace, path: str, index: int) -> Iterator[tuple[int, int, int, Array]]:
    """A plane with directions, a chunk at a time: direction, first row, first column and the values ``[row, col]``.

    Args:
        trace: An open trace.
        path: ``links/words`` or ``links/patterns/words``.
        index: The wafer or the pattern.

    Raises: TraceError as ``plane_part`` does.
    """
    trace.column(path, 0, 0)
    _, directions, rows, cols = dataset_of(trace.file, path).shape
    _, _, tall, wide = dataset_of(trace.file, path).chunks
    for direction in range(directions):
        for row in range(0, rows, tall):
            for col in range(0, cols, wide):
                part = (index, direction, slice(row, row + tall), slice(col, col + wide))
                yield direction, row, col, plane_part(trace, path, part)
