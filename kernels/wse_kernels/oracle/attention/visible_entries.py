"""Cache entries of a mesh row, and whether a token attends to them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.operands.attention import Window
from wse_kernels.oracle.memory import I64

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


def slots_of(ctl: I32, row: int, T: int, capacity: int) -> I64:
    """Return the cache slots of the ``T`` oldest KV-cache entries of a mesh row.

    Args:
        ctl: Per-row counters. Word 7 is the slot of the oldest entry.
        row: Index of the row.
        T: Number of entries.
        capacity: Number of slots, after which the entries wrap around.
    """
    slots: I64 = (ctl[row, 7] + np.arange(T)) % capacity
    return slots


def entry_visibility(ctl: I32, row: int, M: int, positions: I32, limits: Window) -> Bools:
    """Return, as [M, T], whether each token of a mesh row attends to each cache entry.

    Args:
        ctl: Per-row counters.
        row: Index of the row.
        M: Number of tokens.
        positions: Position of each of the T entries, or -1 for an empty slot.
        limits: Sliding window and attention chunk.
    """
    token = ctl[row, 0] + np.arange(M)[:, None]
    is_visible: Bools = (positions >= 0) & (positions <= token)
    if limits.window:
        is_visible &= token - positions < limits.window
    if limits.chunk:
        is_visible &= token // limits.chunk == positions // limits.chunk
    return is_visible
