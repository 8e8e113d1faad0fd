"""Kernels that store weights: parts of the rows of a tensor are copied to all PEs of a patch.

A patch is a rectangle of PEs. ``values [r, c]`` are rows of the tensor. PE (i, j) of the patch
stores the elements at ``rows[i, :, j]`` and ``columns[i, :, j]``, int32
``[mesh rows or 1, n, mesh columns or 1]``. The length of an axis is 1 if the indices do not depend
on it. A negative index is padding and gives 0. Element (r, c) is stored at the element address +
``row_places[r]`` + ``column_places[c]``.

Operands ``a``: 0 address, 1 first mesh row, 2 mesh rows, 3 first mesh column, 4 mesh columns, 5
blocks per mesh row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function

GROUP = 8
"""Number of mesh rows that are interleaved, because their elements are neighbours in the tensor."""


def store_numbers(view: Any, values: Any, rows: Any, columns: Any, row_places: Any, column_places: Any, a: Any) -> None:
    """Store weights in the SRAM of a rectangle of PEs, rounded to the element type of the view.

    Args:
        view: SRAM, ``[block, address, PE of block]``.
        values: Rows of the weight tensor, ``[r, c]``.
        rows, columns: Indices into ``values`` of the elements of each PE, int32
            ``[mesh rows or 1, n, mesh columns or 1]``. Negative indices are padding, which is
            stored as 0.
        row_places, column_places: For each row and each column of the PE's elements, an offset in
            SRAM. Element (i, j) is stored at address a[0] + row_places[i] + column_places[j].
        a: Operands: a[0] address, a[1] first mesh row, a[2] mesh rows, a[3] first mesh column,
            a[4] mesh columns, a[5] blocks per mesh row.
    """
    lanes, first, last, flat = view.shape[2], a[3], a[3] + a[4], values.reshape(-1)
    row_steps, column_steps, row_of, column_of = _steps(rows), _steps(columns), rows.reshape(-1), columns.reshape(-1)
    for group in range((a[2] + GROUP - 1) // GROUP):
        for block in range(first // lanes, (last - 1) // lanes + 1):
            for r in range(len(row_places)):
                for i in range(group * GROUP, min(a[2], (group + 1) * GROUP)):
                    for c in range(len(column_places)):
                        pes, at = (a[1] + i) * a[5] + block, a[0] + row_places[r] + column_places[c]
                        for col in range(max(first, block * lanes), min(last, (block + 1) * lanes)):
                            row = _index_of_pe(row_of, row_steps, i, r, col - first)
                            column = _index_of_pe(column_of, column_steps, i, c, col - first)
                            is_real = (row | column) >= 0
                            value = widen(flat[np.uint64(row * values.shape[1] + column if is_real else 0)])
                            value = value if is_real else np.float32(0.0)
                            narrowed = narrow(value, view[0, 0, 0])
                            view[np.uint64(pes), np.uint64(at), np.uint64(col - block * lanes)] = narrowed


def store_codes(
    view: Any,
    values: Any,
    rows: Any,
    columns: Any,
    row_places: Any,
    column_places: Any,
    row_shifts: Any,
    column_shifts: Any,
    a: Any,
) -> None:
    """Store quantised weights in the SRAM of a rectangle of PEs, packed into bytes if needed.

    Element (i, j) of a PE is shifted left by ``row_shifts[i]`` + ``column_shifts[j]`` bits and
    combined with the stored byte by a bitwise OR. Padding is not stored.

    Args:
        view: SRAM as bytes, ``[block, address, PE of block]``.
        values: Rows of quantised weights, ``[r, c]``.
        rows, columns: Indices into ``values`` of the elements of each PE, int32
            ``[mesh rows or 1, n, mesh columns or 1]``. Negative indices are padding.
        row_places, column_places: For each row and each column of the PE's elements, an offset in
            SRAM. Element (i, j) is stored at address a[0] + row_places[i] + column_places[j].
        row_shifts, column_shifts: Number of bits to shift by, for each row and column of the PE's
            elements.
        a: Operands: a[0] address, a[1] first mesh row, a[2] mesh rows, a[3] first mesh column,
            a[4] mesh columns, a[5] blocks per mesh row.
    """
    lanes, first, last, flat = view.shape[2], a[3], a[3] + a[4], values.reshape(-1)
    row_steps, column_steps, row_of, column_of = _steps(rows), _steps(columns), rows.reshape(-1), columns.reshape(-1)
    for group in range((a[2] + GROUP - 1) // GROUP):
        for block in range(first // lanes, (last - 1) // lanes + 1):
            for r in range(len(row_places)):
                for i in range(group * GROUP, min(a[2], (group + 1) * GROUP)):
                    for c in range(len(column_places)):
                        pes, at = (a[1] + i) * a[5] + block, a[0] + row_places[r] + column_places[c]
                        shift = row_shifts[r] + column_shifts[c]
                        for col in range(max(first, block * lanes), min(last, (block + 1) * lanes)):
                            row = _index_of_pe(row_of, row_steps, i, r, col - first)
                            column = _index_of_pe(column_of, column_steps, i, c, col - first)
                            if (row | column) >= 0:
                                code = np.int64(flat[np.uint64(row * values.shape[1] + column)]) << shift
                                position = np.uint64(pes), np.uint64(at), np.uint64(col - block * lanes)
                                view[position] = np.uint8(np.int64(view[position]) | code)


@helper_function
def _steps(index: Any) -> Any:
    """Return the strides of an index array, between neighbouring PEs and between elements.

    Returns:
        Strides along mesh rows, elements and mesh columns. The stride is 0 along a mesh axis of
        length 1, where the single index applies to all PEs.
    """
    height, element_count, length = index.shape
    return element_count * length if height > 1 else 0, length, 1 if length > 1 else 0


@helper_function
def _index_of_pe(index: Any, steps: Any, i: Any, n: Any, j: Any) -> Any:
    """Return one of the tensor indices of a PE.

    The array ``[mesh rows or 1, n, mesh columns or 1]`` has several tensor indices for each PE. It
    is read in flattened form.

    Args:
        index: The array, flattened.
        steps: Distance in the flattened array to the next mesh row, the next index of the same PE,
            and the next mesh column. The distance is 0 along an axis of length 1.
        i, j: Mesh row and mesh column of the PE.
        n: Which of the indices of the PE to return.
    """
    return np.int64(index[np.uint64(i * steps[0] + n * steps[1] + j * steps[2])])
