"""Messages along columns that stay in place: sums in transit in registers."""

from __future__ import annotations

from typing import Any

from wse_kernels._accumulator import ACCUMULATE, KEEP_LARGER, LOAD, STORE, STRIP, accumulate
from wse_kernels._jit import prange

__all__ = ["ACCUMULATE", "KEEP_LARGER", "LOAD", "STORE", "along_columns_in_place"]


def along_columns_in_place(view: Any, program: Any, a: Any) -> None:
    """Messages along columns that arrive where they are sent from, as a program on an accumulator.

    All columns do the same; ``program`` int32 ``[steps, 3]`` has the steps of `wse_kernels._accumulator`, whose PEs are
    rows. Operands: 2 blocks a row, 3 address, 5 elements.
    """
    strips = (a[5] * view.shape[2] + STRIP - 1) // STRIP
    for job in prange(a[2] * strips):
        first = job % strips * STRIP
        accumulate(view, program, job // strips, a[2], a[3], first, min(STRIP, a[5] * view.shape[2] - first))
