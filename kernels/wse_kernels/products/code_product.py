"""Products with a tile of quantised codes, which are unpacked in registers.

There are two products: of a chunk of tokens in all lanes (PEs of a block), and of one token in
selected lanes. A PE would unpack a few rows at a time into scratch memory, which only the product
itself reads.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from wse_kernels.codegen.elements import narrow, row_pointer, widen
from wse_kernels.codegen.functions import word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.lanes import lanes_in
from wse_kernels.products.chunk_generator import OUTPUTS
from wse_kernels.products.chunk_product import product_of
from wse_kernels.products.codes import CODES_PER_BYTE, FP8_BLOCKS, GROUPED, code_value
from wse_kernels.products.tiles import CodeTile, ProductRows
from wse_kernels.products.vector_product import SumsAndActivations, call_vector_function
from wse_kernels.products.weights import WeightKind


@intrinsic(prefer_literal=True)
def _multiply_compiled(typing_context: Any, views: Any, block: Any, rows: Any, tile: Any, coding: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = coding.literal_value
        arrays, sizes, weights = _arguments(context, builder, views, args[0], args[1], args[3])
        kind = WeightKind((views.types[1].dtype, views.types[2].dtype), number, number in GROUPED, OUTPUTS)
        product_of(context, builder, arrays, args[2], sizes, word(0), kind, weights)
        return context.get_dummy_value()

    return types.void(views, types.int64, rows, tile, coding), generate


@intrinsic(prefer_literal=True)
def _multiply_scaled_compiled(
    typing_context: Any, views: Any, choice: Any, block: Any, out: Any, x: Any, tile: Any, add: Any, coding: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays, sizes, weights = _arguments(context, builder, views, args[0], args[2], args[5])
        kind = WeightKind((views.types[1].dtype, views.types[2].dtype), coding.literal_value, scaled=True)
        call_vector_function(context, builder, arrays, (choice, args[1]), args[3:5], sizes, args[6], kind, weights)
        return context.get_dummy_value()

    word_type = types.int64
    return types.void(views, choice, word_type, word_type, word_type, tile, word_type, coding), generate


def _arguments(
    context: Any, builder: Any, views: Any, value: Any, block: Any, tile: Any
) -> tuple[SumsAndActivations, tuple[Any, Any], list[Any]]:
    """Convert the operands of a product with quantised weights to the values its generator needs.

    Args:
        context, builder: Numba target context and LLVM builder.
        views, value: Numba type and LLVM value of the tuple of SRAM views (acc, act, scales, raw).
        block: LLVM value of the index of the block of PEs.
        tile: LLVM value of a `CodeTile` (addresses, sizes and strides of weights and scales).

    Returns:
        1. The arrays of sums and activations.
        2. The sizes K and N (inputs and outputs).
        3. Pointers to the weights, groups, block widths and scales of the block, followed by the
           other numbers of the tile: strides and counts.
    """
    *sums_and_activations, scales, raw = cgutils.unpack_tuple(builder, value)
    w, groups, widths, scale, K, N, *numbers = cgutils.unpack_tuple(builder, tile)
    scale_view, byte_view = views.types[2:]
    bytes_of_pe = [row_pointer(context, builder, byte_view, raw, block, row)[0] for row in (w, groups, widths)]
    scales_of_pe = row_pointer(context, builder, scale_view, scales, block, scale)[0]
    arrays = SumsAndActivations(views.types[:2], sums_and_activations, block)
    return arrays, (K, N), [*bytes_of_pe, scales_of_pe, *numbers]


def _multiply_by_tokens(views: Any, block: int, rows: ProductRows, tile: CodeTile, coding: int) -> None:
    """Multiply M tokens by quantised weights in plain Python. See `multiply_codes`.

    Args:
        views: SRAM arrays of the sums, the activations, the scales and the quantised weights.
        block: Index of the block of PEs.
        rows: Number of tokens M, and where their sums and activations are stored.
        tile: Addresses and sizes of weights and scales.
        coding: Number that identifies the weight format, such as INT8 or MXFP4.
    """
    for m in range(rows.M):
        out, x = rows.out + m * rows.out_stride, rows.x + m * rows.x_stride
        _multiply_by_lanes(views, None, block, out, x, tile, 0, coding, scaled=coding in GROUPED)


def _multiply_by_lanes(
    views: Any, choice: Any, block: int, out: int, x: int, tile: CodeTile, add: int, coding: int, *, scaled: bool = True
) -> None:
    """Multiply one token by a tile of quantised weights on selected PEs, in plain Python.

    `multiply_scaled_codes` is the compiled version.

    Args:
        views: SRAM arrays of the sums, the activations, the scales and the quantised weights.
        choice: Selection of lanes (PEs), or None for all lanes.
        block: Index of the block of PEs.
        out, x: Addresses of the first sum and the first activation.
        tile: Addresses and sizes of weights and scales.
        add: 0 to overwrite the sums, any other value to add to them.
        coding: Number that identifies the weight format, such as INT8 or MXFP4.
        scaled: Whether each weight is multiplied by its scale.
    """
    acc, act, scales, raw = views
    w, groups, widths, scale, K, N, k_stride, scale_stride, G, B = tile
    for n, lane in product(range(N), lanes_in(choice, acc.shape[2])):
        total = acc[block, out + n, lane] if add != 0 else narrow(np.float32(0.0), acc[block, out + n, lane])
        for k in range(K):
            weight = code_value(raw[block, w + k // CODES_PER_BYTE[coding] * k_stride + n, lane], coding, k)
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
    """Return the index of the block of outputs that contains output ``n``.

    Args:
        widths: Number of outputs in each block, in order.
        n: Index of the output.
    """
    return int(np.searchsorted(np.cumsum(widths, dtype=np.int64), n, side="right"))


multiply_codes: Any = _multiply_by_tokens if config.DISABLE_JIT else _multiply_compiled
"""Multiply M tokens by a tile of codes.

The call is ``multiply_codes((acc, act, scales, raw), block, rows, tile, coding)``, where ``rows``
is a `ProductRows`, ``tile`` a `CodeTile`, and ``coding`` a literal number. For m < M and n < N,
acc[out + m out_stride + n] becomes the sum of act[x + m x_stride + k] times the code of row k and
output n over k < K, in ascending order. Codes begin at raw[w].

- Codings INT4, MXFP4 and FP8_BLOCKS: each code is multiplied by a scale of its row's group.
  raw[groups + k] is the group of row k, and scales begin at scales[scale].
- FP8_BLOCKS: scale b of a group is that of raw[widths + b] consecutive outputs.
- Codings INT8 and FP8: codes are not multiplied by scales.
- Indices are rows ``[block, row, :]`` of the views. They are not checked, and all lanes take part.
- Scales, and codes times scales, are rounded to the type of ``act``. Each product is rounded to
  float32, each sum to float32 and then to the type of ``acc``.
"""

multiply_scaled_codes: Any = _multiply_by_lanes if config.DISABLE_JIT else _multiply_scaled_compiled
"""Multiply one token by a tile of codes with scales, in the chosen lanes.

The call is ``multiply_scaled_codes((acc, act, scales, raw), choice, block, out, x, tile, add,
coding)``. Operands and rounding are those of `multiply_codes`, with these differences:

- Every code is multiplied by a scale. Codings without groups have one scale per output, and neither
  ``groups`` nor ``widths`` is read.
- ``add``: 0 to overwrite the sums; any other value to begin with the stored sums.
- ``choice``: None if all lanes take part, else the chosen lanes.
"""
