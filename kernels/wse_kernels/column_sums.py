"""Transfer kernel for messages along columns that send and receive at the same address."""

from __future__ import annotations

from typing import Any

from wse_kernels._accumulator import ACCUMULATE, KEEP_LARGER, LOAD, STORE, STRIP, accumulate
from wse_kernels._jit import prange

__all__ = ["ACCUMULATE", "KEEP_LARGER", "LOAD", "STORE", "along_columns_in_place"]


def along_columns_in_place(view: Any, program: Any, a: Any) -> None:
    """Execute messages along columns that send and receive at the same address.

    The messages are given as a program for an accumulator, which keeps running sums in registers.
    All columns execute the same program.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        program: int32 ``[steps, 3]``, the steps of `wse_kernels._accumulator`, with mesh rows as
            PEs.
        a: Operands: 2 blocks per row, 3 address, 5 elements.
    """
    strips = (a[5] * view.shape[2] + STRIP - 1) // STRIP
    for job in prange(a[2] * strips):
        first = job % strips * STRIP
        accumulate(view, program, job // strips, a[2], a[3], first, min(STRIP, a[5] * view.shape[2] - first))
