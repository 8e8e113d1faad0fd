"""Product of one token with a tile. Weights are read once, as fast as the memory delivers them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.elements import narrow, row_pointer, widen
from wse_kernels.codegen.functions import internal_function, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.lanes import lanes_in
from wse_kernels.products.tiles import Tile
from wse_kernels.products.vector_generator import VectorGenerator
from wse_kernels.products.weights import WeightKind


class SumsAndActivations(NamedTuple):
    """Arrays of sums and activations for which the LLVM code of a product is generated.

    Attributes:
        views: Numba types of the array of sums and of the array of activations.
        values: LLVM values of the two arrays.
        block: Index of the block (group of neighbouring PEs) on which the product is computed.
    """

    views: tuple[Any, Any]
    values: Sequence[Any]
    block: Any

    def pointers(self, context: Any, builder: Any, rows: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return LLVM pointers to a row of sums and a row of activations.

        Args:
            context, builder: Numba target context and LLVM builder.
            rows: Addresses of the sums and the activations.

        Returns:
            The two pointers, and the number of lanes (PEs) in a row.
        """
        found = [
            row_pointer(context, builder, view, value, self.block, row)
            for view, value, row in zip(self.views, self.values, rows, strict=True)
        ]
        return [pointer for pointer, _ in found], found[0][1]

    @property
    def element_types(self) -> tuple[Any, Any]:
        """Numba types of a sum and an activation."""
        return self.views[0].dtype, self.views[1].dtype


@intrinsic
def _multiply_compiled(
    typing_context: Any, views: Any, choice: Any, block: Any, out: Any, x: Any, tile: Any, add: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *values, wgt = cgutils.unpack_tuple(builder, args[0])
        w, K, N, *strides = cgutils.unpack_tuple(builder, args[5])
        arrays = SumsAndActivations(views.types[:2], values, args[2])
        weights = row_pointer(context, builder, views.types[2], wgt, args[2], w)[0]
        kind = WeightKind((views.types[2].dtype,))
        call_vector_function(
            context, builder, arrays, (choice, args[1]), args[3:5], (K, N), args[6], kind, [weights, *strides]
        )
        return context.get_dummy_value()

    word_type = types.int64
    return types.void(views, choice, word_type, word_type, word_type, tile, word_type), generate


def call_vector_function(
    context: Any,
    builder: Any,
    arrays: SumsAndActivations,
    choice: tuple[Any, Any],
    rows: Sequence[Any],
    sizes: Any,
    add: Any,
    kind: WeightKind,
    weights: Sequence[Any],
) -> None:
    """Generate a call to the LLVM function that multiplies one token by a weight tile.

    Args:
        context, builder: Numba target context and LLVM builder.
        arrays: Arrays of sums and activations.
        choice: Numba type and LLVM value of the selection of lanes (PEs). The type is ``none`` if
            all lanes take part.
        rows: Addresses of the first sum and the first activation.
        sizes: K and N, the numbers of inputs and outputs.
        add: 0 to overwrite the sums, any other value to add to them.
        kind: How the weights are stored, for example as elements or as int8 codes.
        weights: LLVM values that locate the weights: pointers, then strides.
    """
    sums_and_activations, lanes = arrays.pointers(context, builder, rows)
    choice_pointers = (
        [] if choice[0] == types.none else [context.make_array(choice[0])(context, builder, choice[1]).data]
    )
    pointers = [*sums_and_activations, *choice_pointers, *weights[: kind.pointer_count]]
    function = vector_function(
        builder.module, arrays.element_types, kind, [p.type for p in pointers], some_lanes=bool(choice_pointers)
    )
    size = block_bytes_of(context, builder, arrays.views[0], arrays.values[0])
    builder.call(function, [*pointers, *weights[kind.pointer_count :], *sizes, add, lanes, size])


def block_bytes_of(context: Any, builder: Any, view: Any, value: Any) -> Any:
    """Generate code for the size in bytes of one block of an array ``[block, address, lane]``.

    A block is a group of neighbouring PEs, and a lane is one of these PEs.

    Args:
        context, builder: Numba target context and LLVM builder.
        view, value: Numba type and LLVM value of the array.
    """
    _, height, lanes = cgutils.unpack_tuple(builder, context.make_array(view)(context, builder, value).shape)
    return builder.mul(builder.mul(height, lanes), word(view.dtype.bitwidth // 8))


def vector_function(
    module: Any, sums: tuple[Any, Any], kind: WeightKind, pointers: Sequence[Any], *, some_lanes: bool = False
) -> Any:
    """Return the LLVM function that multiplies one token by a weight tile.

    The LLVM function has these arguments:

    1. Pointers to the sums and the activations.
    2. The selection of lanes (PEs of a block), only if ``some_lanes`` is True.
    3. The values that locate the weights.
    4. K, N, add, the number of lanes, and the size of a block in bytes.

    Args:
        module: LLVM module.
        sums: Numba types of sums and activations.
        kind: How the weights are stored, for example as elements or as int8 codes.
        pointers: LLVM types of the pointers, which refer to non-overlapping memory.
        some_lanes: Whether the function computes only selected lanes.
    """

    def body(builder: Any, outs: Any, xs: Any, *arguments: Any) -> None:
        choice, arguments = (arguments[0], arguments[1:]) if some_lanes else (None, arguments)
        weight_arguments = kind.pointer_count + kind.integer_count
        weights, numbers = arguments[:weight_arguments], arguments[weight_arguments:]
        VectorGenerator(builder, sums, kind, outs, xs, choice, weights, numbers).multiply()

    name = "wse_multiply_vector_" + "_".join(map(str, (*sums, kind, some_lanes)))
    return internal_function(module, name, pointers, kind.integer_count + 5, body)


def _multiply_by_lanes(views: Any, choice: Any, block: int, out: int, x: int, tile: Tile, add: int) -> None:
    """Multiply the activations of one token by a weight tile on the selected PEs, in plain Python.

    `multiply_vector` refers to this function only if Numba's compilation is disabled.

    Args:
        views: Three arrays ``[block, address, lane]``: the SRAM with the element type of the sums,
            of the activations, and of the weights.
        choice: Selection of lanes (PEs of the block), or None for all lanes.
        block: Index of the block (group of neighbouring PEs).
        out, x: Addresses of the first sum and the first activation.
        tile: Address, sizes and strides of the weights.
        add: 0 to overwrite the sums; any other value to add the products to them.
    """
    acc, act, wgt = views
    for n, lane in product(range(tile.N), lanes_in(choice, acc.shape[2])):
        total = acc[block, out + n, lane] if add != 0 else narrow(np.float32(0.0), acc[block, out + n, lane])
        for k in range(tile.K):
            weight = widen(wgt[block, tile.w + k * tile.k_stride + n * tile.n_stride, lane])
            total = narrow(widen(total) + widen(act[block, x + k, lane]) * weight, total)
        acc[block, out + n, lane] = total


multiply_vector: Any = _multiply_by_lanes if config.DISABLE_JIT else _multiply_compiled
"""Multiply the activations of one token by a tile of floating-point weights, on selected PEs.

The call is ``multiply_vector((acc, act, wgt), choice, block, out, x, tile, add)``, where ``tile``
is a `Tile`. For n < N, acc[out + n] becomes the sum of act[x + k] * wgt[w + k k_stride +
n n_stride] over k < K, in ascending order.

- ``add``: 0 to overwrite the sums; any other value to begin with the stored sums.
- ``choice``: Selected lanes (PEs of the block), from `wse_kernels.codegen.lanes.lane_choice`. None
  selects all lanes.
- acc[i], act[i] and wgt[i] are the rows ``[block, i, :]`` of the views. Indices are not checked.
- Each product is rounded to float32, each sum to float32 and then to the type of ``acc``.
"""
