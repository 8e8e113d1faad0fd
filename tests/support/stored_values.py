"""Values of each PE, put into an arena as weights are."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.tiles import Patch, PatchShard


def store_values(
    arena: Arena, element_type: str, address: int, values: Any, first_row: int = 0, first_col: int = 0
) -> None:
    """Store ``values [rows, cols, n]`` in PEs from ``first_row`` and ``first_col`` on."""
    rows, cols, count = values.shape
    places = np.arange(count, dtype=np.int32)
    share = PatchShard(
        patch=Patch(first_row, first_row + rows, first_col, first_col + cols),
        rows=np.arange(rows * cols, dtype=np.int32).reshape(rows, 1, cols),
        columns=places[None, :, None].copy(),
        row_places=np.zeros(1, np.int32),
        column_places=places,
        row_shifts=np.zeros(1, np.int32),
        column_shifts=np.zeros(count, np.int32),
    )
    arena.store(element_type, address, values.reshape(-1, count), share)
