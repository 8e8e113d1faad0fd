"""Products of the (token, expert) pairs in a list with the weights of their experts.

`wse_kernels.compute.experts` describes the list. PEs of a block that have the same pair are
computed together. Vectors of pairs are stored in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import choose_lanes, lane_choice, lane_values
from wse_kernels.products.code_product import multiply_scaled_codes
from wse_kernels.products.codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4
from wse_kernels.products.tiles import CodeTile, Tile
from wse_kernels.products.vector_product import multiply_vector


@helper_function
def limited_index(f32, block, at, lane, count):
    """Read a token or expert index from a list of pairs, and clamp it to the valid range.

    Args:
        f32: SRAM as float32 elements [block, address, PE of block].
        block, at, lane: Block of PEs, address in SRAM, and lane (PE of the block) of the index.
        count: Number of valid indices. The result is at most ``count`` - 1.
    """
    return min(max(np.int64(f32[block, at, lane]), 0), count - 1)


@helper_function
def multiply_by_routing_weights(view, f32, block, vectors, pairs, P, lane_count):
    """Multiply the vector of each (token, expert) pair by its routing weight, in place.

    Args:
        view, f32, block: View that contains the vectors, float32 view that contains the list of
            pairs, and index of the block of PEs.
        vectors: Address of the first vector, distance between vectors, and number of elements per
            vector.
        pairs: Address of the list of pairs.
        P: Maximum number of pairs in the list.
        lane_count: Number of PEs in the block.
    """
    first, stride, n = vectors
    for i in range(P):
        for e in range(first + i * stride, first + i * stride + n):
            for lane in range(lane_count):
                if i < f32[block, pairs, lane]:
                    old = view[block, e, lane]
                    view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)


NO_PAIR = np.float32(-1.0)  # in place of the number of a pair


class Views(NamedTuple):
    """The SRAM of PEs, seen as arrays of several element types, for products with expert weights.

    Attributes:
        acc, act, f32: The SRAM as accumulators, as activations, and as float32 numbers.
        scales: The SRAM as elements of the type in which scales are stored. Weights that are not
            quantised have no scales and are read from this array.
        raw: The SRAM as bytes, from which quantised weights are read. Not used for other weights.
    """

    acc: Any
    act: Any
    scales: Any
    raw: Any
    f32: Any


class _PairRows(NamedTuple):
    """Addresses of the activations and sums of each (token, expert) pair.

    The addresses are linear functions of the token and pair indices.

    Attributes:
        out, x: Addresses of sums and activations for token 0 and pair 0.
        out_by_token, out_by_pair: Strides between tokens and between pairs in the sums.
        x_by_token, x_by_pair: Strides between tokens and between pairs in the activations.
    """

    out: int
    out_by_token: int
    out_by_pair: int
    x: int
    x_by_token: int
    x_by_pair: int


@helper_function
def products_of_tokens(multiply, place, views, at, shape, product, tile, coding):
    """Multiply a token's activations by an expert's weights, for each (token, expert) pair.

    Each pair gets its own row of results. If ``product.weighted`` is 1, the results are multiplied
    by the routing weight of the pair.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert.
        place: Position of the block (group of neighbouring PEs).
        views: Views of the SRAM as several element types.
        at, shape, product: Operands of the kernel: addresses, sizes and settings.
        tile: Weights of the column's first expert.
        coding: Number that identifies the quantised weight format.
    """
    rows = _PairRows(at.out, 0, product.out_stride, at.x, shape.K, 0)
    lane_count = min(views.acc.shape[2], product.columns - place.col)
    _over_pairs(multiply, place.block, lane_count, views, at.pairs, shape, rows, tile, coding, 0)
    if product.weighted == 1:
        out = at.out, product.out_stride, shape.N
        multiply_by_routing_weights(views.acc, views.f32, place.block, out, at.pairs, shape.P, lane_count)


@helper_function
def sums_of_tokens(multiply, place, views, at, shape, product, tile, coding):
    """For each token, sum the products of its activations and the weights of its experts.

    Each (token, expert) pair in the list has its own activations.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert.
        place: Position of the block (group of neighbouring PEs).
        views: Views of the SRAM as several element types.
        at, shape, product: Operands of the kernel: addresses, sizes and settings.
        tile: Weights of the column's first expert.
        coding: Number that identifies the quantised weight format.
    """
    lane_count = min(views.acc.shape[2], product.columns - place.col)
    if product.weighted == 1:
        x = at.x, shape.K, shape.K
        multiply_by_routing_weights(views.act, views.f32, place.block, x, at.pairs, shape.P, lane_count)
    clear_rows(views.acc, place.block, at.out, shape.M * shape.N)
    rows = _PairRows(at.out, shape.N, 0, at.x, 0, shape.K)
    _over_pairs(multiply, place.block, lane_count, views, at.pairs, shape, rows, tile, coding, 1)


@helper_function
def _over_pairs(multiply, block, lane_count, views, pairs, shape, rows, tile, coding, add):
    """Multiply the activations of every (token, expert) pair by the weights of its expert.

    Each PE of the block has its own list of pairs. PEs with the same pair are computed together.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert, on selected PEs.
        block: Index of the block of PEs.
        lane_count: Number of PEs in the block.
        views: SRAM as arrays of several element types.
        pairs: Address of the list of pairs.
        shape: Numbers of pairs, tokens, inputs, outputs and experts.
        rows: Addresses of the vectors of each pair.
        tile: Weights of the column's first expert.
        coding: Number that identifies the quantised weight format.
        add: 1 to add products to the sums, 0 to overwrite the sums.
    """
    f32, M, local_experts = views.f32, shape.M, shape.local_experts
    numbers, choice = lane_values(lane_count), lane_choice()  # numbers of pairs are exact up to 2 ** 24
    for i in range(shape.P):
        at = pairs + 1 + 3 * i
        for lane in range(lane_count):
            numbers[lane] = NO_PAIR
            if i < f32[block, pairs, lane]:
                token = limited_index(f32, block, at, lane, M)
                expert = limited_index(f32, block, at + 1, lane, local_experts)
                numbers[lane] = np.float32(token * local_experts + expert)
        for lane in range(lane_count):
            if numbers[lane] != NO_PAIR:
                token, expert = divmod(np.int64(numbers[lane]), local_experts)
                choose_lanes(choice, numbers, lane, NO_PAIR)
                out = rows.out + token * rows.out_by_token + i * rows.out_by_pair
                x = rows.x + token * rows.x_by_token + i * rows.x_by_pair
                multiply(views, choice, block, out, x, _tile_of_expert(tile, expert), add, coding)


@helper_function
def _tile_of_expert(tile, expert):
    """Return the location of one expert's weights and scales.

    Args:
        tile: Location of the weights and scales of the first expert of the column of PEs.
        expert: Index of the expert among the experts of the column.
    """
    return CodeTile(
        tile.w + expert * tile.N,
        tile.groups,
        tile.widths,
        tile.scale + expert * tile.B,
        tile.K,
        tile.N,
        tile.k_stride,
        tile.scale_stride,
        tile.G,
        tile.B,
    )


@helper_function
def multiply_elements(views, choice, block, out, x, tile, add, coding):
    """Multiply a vector by the unquantised weights of an expert, on the selected PEs of a block.

    The function is passed to `_over_pairs`, which calls it for every (token, expert) pair.

    Args:
        views: SRAM as arrays of several element types.
        choice: Bit mask of the selected PEs.
        block: Index of the block of PEs.
        out, x: Addresses of the first sum and the first activation.
        tile: Addresses and sizes of the expert's weights.
        add: 1 to add the products to the sums, 0 to overwrite the sums.
        coding: Not used, because the weights are not quantised.
    """
    elements = Tile(tile.w, tile.K, tile.N, tile.k_stride, 1)
    multiply_vector((views.acc, views.act, views.scales), choice, block, out, x, elements, add)


def _multiply_by(coding):
    """Return a function that multiplies a vector by quantised weights of one format.

    The caller passes the returned function to `_over_pairs`. The format is a constant of the
    function, so that numba compiles code for this format only. The function therefore ignores its
    argument ``coding``.
    """

    @helper_function
    def multiply(views, choice, block, out, x, tile, add, _):
        views_of_codes = views.acc, views.act, views.scales, views.raw
        multiply_scaled_codes(views_of_codes, choice, block, out, x, tile, add, coding)

    return multiply


_multiply_int8, _multiply_int4, _multiply_fp8 = (_multiply_by(coding) for coding in (INT8, INT4, FP8))
multiply_mxfp4, multiply_fp8_blocks = (_multiply_by(coding) for coding in (MXFP4, FP8_BLOCKS))


@helper_function
def multiply_quantised(views, choice, block, out, x, tile, add, coding):
    """Multiply a vector by the int8, FP8 or int4 weights of an expert, on selected PEs of a block.

    The function is passed to `_over_pairs`, which calls it for every (token, expert) pair.

    Args:
        views: SRAM as arrays of several element types.
        choice: Bit mask of the selected PEs.
        block: Index of the block of PEs.
        out, x: Addresses of the first sum and the first activation.
        tile: Addresses and sizes of the expert's weights and scales.
        add: 1 to add the products to the sums, 0 to overwrite the sums.
        coding: Number that identifies the weight format: INT8, FP8 or INT4.
    """
    if coding == INT8:
        _multiply_int8(views, choice, block, out, x, tile, add, coding)
    elif coding == FP8:
        _multiply_fp8(views, choice, block, out, x, tile, add, coding)
    else:
        _multiply_int4(views, choice, block, out, x, tile, add, coding)
