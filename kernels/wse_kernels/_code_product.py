"""Products with a tile of quantised codes, which are unpacked in registers.

A product is over a chunk of tokens in all lanes, or over one token in the chosen lanes. A PE would
unpack a few rows at a time into scratch memory, which only the product itself reads.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from wse_kernels._chunk_product import OUTPUTS, product_of
from wse_kernels._codes import CODES_A_BYTE, FP8_BLOCKS, GROUPED, code_value
from wse_kernels._elements import narrow, row_pointer, widen
from wse_kernels._jit import config, intrinsic, types
from wse_kernels._lanes import lanes_in
from wse_kernels._vector_product import call_vector_function
from wse_kernels._weights import WeightKind

__all__ = ["multiply_codes", "multiply_scaled_codes"]


@intrinsic(prefer_literal=True)
def _multiply_compiled(
    typing_context: Any,
    acc: Any, act: Any, scales: Any, raw: Any, block: Any, out: Any, x: Any, w: Any, groups: Any, widths: Any,
    scale: Any, M: Any, K: Any, N: Any, G: Any, B: Any, coding: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block, out, x, *rows, M, K, N, G, B, _ = args[4:]
        number = coding.literal_value
        tile = _tile_pointers(context, builder, (raw, scales), (args[3], args[2]), block, rows)
        product_of(
            context, builder, (acc, act), args[:2], block, (out, x), (M, K, N), (K, N), args[4].type(0),
            WeightKind((act.dtype, scales.dtype), number, number in GROUPED, OUTPUTS),
            [*tile, N, B if number == FP8_BLOCKS else N, G, B],
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(acc, act, scales, raw, *(types.int64,) * 12, coding), generate


@intrinsic(prefer_literal=True)
def _multiply_scaled_compiled(
    typing_context: Any,
    acc: Any, act: Any, scales: Any, raw: Any, choice: Any, block: Any, out: Any, x: Any, w: Any, groups: Any,
    widths: Any, scale: Any, K: Any, N: Any, k_stride: Any, scale_stride: Any, G: Any, B: Any, add: Any, coding: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block, out, x, *rows, K, N, k_stride, scale_stride, G, B, add, _ = args[5:]
        tile = _tile_pointers(context, builder, (raw, scales), (args[3], args[2]), block, rows)
        call_vector_function(
            context, builder, (acc, act), args[:2], (choice, args[4]), block, (out, x), (K, N), add,
            WeightKind((act.dtype, scales.dtype), coding.literal_value, scaled=True),
            [*tile, k_stride, scale_stride, G, B],
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(acc, act, scales, raw, choice, *(types.int64,) * 14, coding), generate


def _tile_pointers(context: Any, builder: Any, views: Any, values: Any, block: Any, rows: Any) -> list[Any]:
    """Return pointers to the codes, groups, widths and scales of a tile. All but scales are bytes.

    Args:
        context, builder: Numba target context and LLVM builder.
        views, values: Numba types and LLVM values of the views of bytes and of scales.
        block, rows: Index of the block of PEs; addresses of the four arrays.
    """
    byte_view, scale_view = zip(views, values, strict=True)
    operands = zip((byte_view, byte_view, byte_view, scale_view), rows, strict=True)
    return [row_pointer(context, builder, view, value, block, row)[0] for (view, value), row in operands]


def _multiply_by_tokens(
    acc: Any, act: Any, scales: Any, raw: Any, block: int, out: int, x: int, w: int, groups: int, widths: int,
    scale: int, M: int, K: int, N: int, G: int, B: int, coding: int,
) -> None:  # fmt: skip
    """Multiply M tokens by a tile of codes, in plain Python. See `multiply_codes`."""
    scale_stride = B if coding == FP8_BLOCKS else N
    for m in range(M):
        _multiply_by_lanes(
            acc, act, scales, raw, None, block, out + m * N, x + m * K, w, groups, widths, scale,
            K, N, N, scale_stride, G, B, 0, coding, scaled=coding in GROUPED,
        )  # fmt: skip


def _multiply_by_lanes(
    acc: Any, act: Any, scales: Any, raw: Any, choice: Any, block: int, out: int, x: int, w: int, groups: int,
    widths: int, scale: int, K: int, N: int, k_stride: int, scale_stride: int, G: int, B: int, add: int,
    coding: int, *, scaled: bool = True,
) -> None:  # fmt: skip
    """Multiply one token by a tile of codes in the chosen lanes, in plain Python.

    The arguments are those of `multiply_scaled_codes`. With ``scaled=False``, codes are not
    multiplied by scales.
    """
    for n, lane in product(range(N), lanes_in(choice, acc.shape[2])):
        total = acc[block, out + n, lane] if add != 0 else narrow(np.float32(0.0), acc[block, out + n, lane])
        for k in range(K):
            weight = code_value(raw[block, w + k // CODES_A_BYTE[coding] * k_stride + n, lane], coding, k)
            if scaled:
                group = int(raw[block, groups + k, lane]) if coding in GROUPED else 0
                scale_index = _output_block(raw[block, widths : widths + B, lane], n) if coding == FP8_BLOCKS else n
                is_invalid = group >= G or (
                    coding == FP8_BLOCKS and scale_index >= B
                )  # lanes without a PE may contain anything
                at = scale + group * scale_stride + scale_index
                factor = np.float32(0.0) if is_invalid else widen(scales[block, at, lane])
                element = act[block, x, lane]
                weight = widen(narrow(weight * widen(narrow(factor, element)), element))
            total = narrow(widen(total) + widen(act[block, x + k, lane]) * weight, total)
        acc[block, out + n, lane] = total


def _output_block(widths: Any, n: int) -> int:
    """Return the index of the block that contains output n, given the widths of all blocks."""
    return int(np.searchsorted(np.cumsum(widths, dtype=np.int64), n, side="right"))


multiply_codes: Any = _multiply_by_tokens if config.DISABLE_JIT else _multiply_compiled
"""Multiply M tokens by a tile of codes.

The call is ``multiply_codes(acc, act, scales, raw, block, out, x, w, groups, widths, scale, M, K,
N, G, B, coding)``. It sets acc[out + m N + n] to the sum over k < K, in ascending order, of
act[x + m K + k] times the code of row k and output n, for m < M and n < N. Codes begin at raw[w].

In the codings INT4, MXFP4 and FP8_BLOCKS, a group of rows has scales, and each code is multiplied
by its scale. raw[groups + k] is the group of row k, one of G. Scales begin at scales[scale]. A
group has N of them, or B in FP8_BLOCKS, where scale b is that of raw[widths + b] consecutive
outputs.

Indices are rows ``[block, row, :]`` of the views, and all lanes take part. Scales, and codes times
scales, are rounded to the type of ``act``. Each product is rounded to float32, each sum to float32
and then to the type of ``acc``. Indices are not checked against the size of the views. ``coding``
is a literal number.
"""

multiply_scaled_codes: Any = _multiply_by_lanes if config.DISABLE_JIT else _multiply_scaled_compiled
"""Multiply one token by a tile of codes with scales, in the chosen lanes.

The call is ``multiply_scaled_codes(acc, act, scales, raw, choice, block, out, x, w, groups, widths,
scale, K, N, k_stride, scale_stride, G, B, add, coding)``. The operands are those of
`multiply_codes`, except that rows of codes are ``k_stride`` apart and rows of scales
``scale_stride``. The sums begin with the stored values if ``add`` is not 0. Every code is
multiplied by a scale. Codings without groups have one scale per output, and neither ``groups`` nor
``widths`` is read.
"""
