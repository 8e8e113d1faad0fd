"""The product of tokens with a tile of codes, which are unpacked in registers.

A PE unpacks some rows at a time into scratch; nothing but its product reads them there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._chunk_product import OUTPUTS, product_of
from wse_kernels._codes import CODES_A_BYTE, FP8_BLOCKS, GROUPED, code_value
from wse_kernels._elements import clear_rows, narrow, row_pointer, widen
from wse_kernels._jit import config, intrinsic, types
from wse_kernels._weights import WeightKind

__all__ = ["multiply_codes"]


@intrinsic(prefer_literal=True)
def _multiply_compiled(
    typing_context: Any,
    acc: Any, act: Any, scales: Any, raw: Any, block: Any, out: Any, x: Any, w: Any, groups: Any, widths: Any,
    scale: Any, M: Any, K: Any, N: Any, G: Any, B: Any, coding: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block, out, x, *rows, scale, M, K, N, G, B, _ = args[4:]
        codes, groups, widths = (row_pointer(context, builder, raw, args[3], block, row)[0] for row in rows)
        of_scales = row_pointer(context, builder, scales, args[2], block, scale)[0]
        product_of(
            context, builder, (acc, act), args[:2], block, (out, x), (M, K, N), (K, N), args[4].type(0),
            WeightKind((act.dtype, scales.dtype), coding.literal_value, OUTPUTS),
            [codes, groups, widths, of_scales, N, G, B],
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(acc, act, scales, raw, *(types.int64,) * 12, coding), generate


def _multiply_by_lanes(
    acc: Any, act: Any, scales: Any, raw: Any, block: int, out: int, x: int, w: int, groups: int, widths: int,
    scale: int, M: int, K: int, N: int, G: int, B: int, coding: int,
) -> None:  # fmt: skip
    clear_rows(acc, block, out, M * N)
    for k, n, lane in np.ndindex(K, N, acc.shape[2]):
        weight = code_value(raw[block, w + k // CODES_A_BYTE[coding] * N + n, lane], coding, k)
        if coding in GROUPED:
            factor = _factor(act, scales, raw, block, lane, groups + k, widths, scale, n, N, G, B, coding)
            weight = widen(narrow(weight * factor, act[block, x, lane]))
        for m in range(M):
            old = acc[block, out + m * N + n, lane]
            product = widen(act[block, x + m * K + k, lane]) * weight
            acc[block, out + m * N + n, lane] = narrow(widen(old) + product, old)


def _factor(
    act: Any, scales: Any, raw: Any, block: int, lane: int, group_of_row: int, widths: int, scale: int, n: int, N: int,
    G: int, B: int, coding: int,
) -> Any:  # fmt: skip
    """The scale of an output in the group of a row, rounded to activations; 0 for none."""
    group, of_output, count = int(raw[block, group_of_row, lane]), n, N
    if coding == FP8_BLOCKS:
        ends = np.cumsum(raw[block, widths : widths + B, lane], dtype=np.int64)
        of_output, count = int(np.searchsorted(ends, n, side="right")), B
    if group >= G or of_output >= count:  # lanes without a PE may hold anything
        return np.float32(0.0)
    value = widen(scales[block, scale + group * count + of_output, lane])
    return widen(narrow(value, act[block, 0, lane]))


multiply_codes: Any = _multiply_by_lanes if config.DISABLE_JIT else _multiply_compiled
"""``multiply_codes(acc, act, scales, raw, block, out, x, w, groups, widths, scale, M, K, N, G, B, coding)``.

acc[out + m N + n] = the sum over k < K, in ascending order, of act[x + m K + k] times the code of row k and output n,
which begin at raw[w], for m < M and n < N. Where a group of rows has a scale, of ``coding`` INT4, MXFP4 and FP8_BLOCKS,
codes are times the factors of their group, raw[groups + k], of G: N a group, which begin at scales[scale], or B, each
of as many outputs as raw[widths + b] says. Indices are rows ``[block, row, :]`` of the views; all lanes take part.
Factors, and codes times them, are rounded to act's type, each product to float32, each sum to float32 and then to acc's
type. Rows outside a view are not noticed: the caller vouches for them. ``coding`` is a number written out.
"""
