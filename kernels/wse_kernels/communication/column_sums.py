"""Transfer kernel for messages along columns that send and receive at the same address."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.jit import prange
from wse_kernels.communication._accumulator import ACCUMULATE, KEEP_LARGER, LOAD, STORE, STRIP, accumulate

__all__ = ["ACCUMULATE", "KEEP_LARGER", "LOAD", "STORE", "along_columns_in_place"]


def along_columns_in_place(view: Any, program: Any, a: Any) -> None:
    """Execute messages along mesh columns whose source and target addresses are the same.

    The messages are given as a list of steps on running sums, which stay in registers. All columns
    execute the same steps.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        program: int32 ``[steps, 3]``. Each step is a kind (load, add, maximum, store), the first
            mesh row and the last mesh row (`wse_kernels.communication._accumulator`).
        a: Operands: 2 blocks per row, 3 address, 5 elements.
    """
    strips = (a[5] * view.shape[2] + STRIP - 1) // STRIP
    for job in prange(a[2] * strips):
        first = job % strips * STRIP
        accumulate(view, program, job // strips, a[2], a[3], first, min(STRIP, a[5] * view.shape[2] - first))
