"""Storing weights: shares of rows of a tensor are put where PEs store them, those of all PEs of a patch at once.

``values [r, c]`` are rows of the tensor. PE (i, j) of the patch takes the elements at ``rows[i, :, j]`` and
``columns[i, :, j]``, int32 ``[mesh rows or 1, n, mesh columns or 1]``, 1 where an index does not vary; a negative one
is padding and gives 0. Element (r, c) of them is then element address + ``row_places[r]`` + ``column_places[c]`` of the
PE.

Operands ``a``: 0 address, 1 first mesh row, 2 mesh rows, 3 first mesh column, 4 mesh columns, 5 blocks of a mesh row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._elements import narrow, widen
from wse_kernels._jit import helper_function

GROUP = 8
"""Mesh rows that take turns, as their elements are neighbours in the tensor's rows."""


def store_numbers(view: Any, values: Any, rows: Any, columns: Any, row_places: Any, column_places: Any, a: Any) -> None:
    """Store numbers of any element type, rounded to that of the view."""
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
    """Store bytes, each moved up by the bits of its row and its column, beside the bits that are there."""
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
                                there = np.uint64(pes), np.uint64(at), np.uint64(col - block * lanes)
                                view[there] = np.uint8(np.int64(view[there]) | code)


@helper_function
def _steps(index: Any) -> Any:
    """Steps between elements of an index, none over the axes of the mesh along which it does not vary."""
    height, picked, length = index.shape
    return picked * length if height > 1 else 0, length, 1 if length > 1 else 0


@helper_function
def _index_of_pe(index: Any, steps: Any, i: Any, n: Any, j: Any) -> Any:
    """Element n of what PE (i, j) takes, by an index that lies flat."""
    return np.int64(index[np.uint64(i * steps[0] + n * steps[1] + j * steps[2])])
