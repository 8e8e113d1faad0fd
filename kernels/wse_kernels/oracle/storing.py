"""The oracle of storing weights: PE by PE, one element after another, on the views that kernels have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import narrow, widen

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
ELEMENT = {"uint16": "float16", "int16": "bfloat16", "float32": "float32"}
"""The element type that each storage type stands for."""


def store_numbers(view: Any, values: Any, rows: I32, columns: I32, row_places: I32, column_places: I32, a: I64) -> None:
    """Every PE of the patch gets its numbers, rounded, and 0 for padding."""
    for place, row, column, _, _ in _shares(view, rows, columns, row_places, column_places, a):
        number = np.zeros(1, np.float32)
        if row >= 0 and column >= 0:
            number = widen(values[row, column : column + 1].view(np.uint8), ELEMENT[values.dtype.name])
        view[place] = narrow(number, ELEMENT[view.dtype.name]).view(view.dtype)[0]


def store_codes(
    view: Any,
    values: Any,
    rows: I32,
    columns: I32,
    row_places: I32,
    column_places: I32,
    row_shifts: I32,
    column_shifts: I32,
    a: I64,
) -> None:
    """Every PE of the patch gets its codes, several in a byte where their places are one."""
    for place, row, column, r, c in _shares(view, rows, columns, row_places, column_places, a):
        if row >= 0 and column >= 0:
            view[place] |= int(values[row, column]) << int(row_shifts[r] + column_shifts[c])


def _shares(
    view: Any, rows: I32, columns: I32, row_places: I32, column_places: I32, a: I64
) -> Iterator[tuple[tuple[int, int, int], int, int, int, int]]:
    """Yield the place of every element in the view, its row and column in the tensor, and their numbers on the PE."""
    address, first_row, height, first_col, width, per_row = (int(word) for word in a)
    of_row = np.broadcast_to(rows, (height, rows.shape[1], width))
    of_column = np.broadcast_to(columns, (height, columns.shape[1], width))
    for i, j in np.ndindex(height, width):
        block, lane = divmod(first_col + j, view.shape[2])
        for r, c in np.ndindex(len(row_places), len(column_places)):
            place = (first_row + i) * per_row + block, address + int(row_places[r] + column_places[c]), lane
            yield place, int(of_row[i, r, j]), int(of_column[i, c, j]), r, c
