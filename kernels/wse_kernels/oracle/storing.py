"""Oracle of the kernels that store weights, PE by PE and element by element, on views of SRAM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import narrow, widen

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
ELEMENT = {"uint16": "float16", "int16": "bfloat16", "float32": "float32"}
"""Element type that each storage type stands for."""


def store_numbers(view: Any, values: Any, rows: I32, columns: I32, row_places: I32, column_places: I32, a: I64) -> None:
    """Store weights in the SRAM of a rectangle of PEs, rounded to the view's element type.

    Padding is stored as 0. This reference is used to test the compiled kernel of the same name.

    Args:
        view: SRAM ``[block, address, PE of block]``.
        values: Rows of the weight tensor.
        rows, columns: Indices into ``values`` of each PE's elements; negative for padding.
        row_places, column_places: Offset in SRAM of each row and of each column of the PE's
            elements. The two offsets of an element are added.
        a: Operands of the kernel: address, first mesh row, mesh rows, first mesh column, mesh
            columns, blocks per mesh row.
    """
    for place, row, column, _, _ in _elements_of_patch(view, rows, columns, row_places, column_places, a):
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
    """Store quantised weights in the SRAM of a rectangle of PEs.

    Weights that share a byte are combined with a bitwise OR. Padding is not stored. This reference
    is used to test the compiled kernel of the same name.

    Args:
        view: SRAM as bytes, ``[block, address, PE of block]``.
        values: Rows of quantised weights.
        rows, columns: Indices into ``values`` of each PE's elements; negative for padding.
        row_places, column_places: Offset in SRAM of each row and of each column of the PE's
            elements. The two offsets of an element are added.
        row_shifts, column_shifts: Number of bits by which the weights of each row and of each
            column are shifted left. The two numbers of an element are added.
        a: Operands of the kernel: address, first mesh row, mesh rows, first mesh column, mesh
            columns, blocks per mesh row.
    """
    for place, row, column, r, c in _elements_of_patch(view, rows, columns, row_places, column_places, a):
        if row >= 0 and column >= 0:
            view[place] |= int(values[row, column]) << int(row_shifts[r] + column_shifts[c])


def _elements_of_patch(
    view: Any, rows: I32, columns: I32, row_places: I32, column_places: I32, a: I64
) -> Iterator[tuple[tuple[int, int, int], int, int, int, int]]:
    """Yield the SRAM position and the tensor indices of each weight of a rectangle of PEs.

    Args:
        view: SRAM ``[block, address, PE of block]``.
        rows, columns: Indices into the weight tensor of each PE's elements; negative for padding.
        row_places, column_places: Offset in SRAM of each row and of each column of the PE's
            elements. The two offsets of an element are added.
        a: Operands of `store_numbers`, which specify the address and the rectangle.

    Yields:
        Position in the view, row and column in the weight tensor (negative for padding), and row
        and column among the elements of the PE.
    """
    address, first_row, height, first_col, width, per_row = (int(word) for word in a)
    row_indices = np.broadcast_to(rows, (height, rows.shape[1], width))
    column_indices = np.broadcast_to(columns, (height, columns.shape[1], width))
    for i, j in np.ndindex(height, width):
        block, lane = divmod(first_col + j, view.shape[2])
        for r, c in np.ndindex(len(row_places), len(column_places)):
            place = (first_row + i) * per_row + block, address + int(row_places[r] + column_places[c]), lane
            yield place, int(row_indices[i, r, j]), int(column_indices[i, c, j]), r, c
