"""Compute kernels that multiply tokens by the experts that were selected for them.

A *pair* is a token and one of the experts selected for it. Every PE works through the list of the
pairs of its column. The list is float32 and begins with the number of pairs. Three values follow
for each pair: token, expert and routing weight. Experts are counted from the column's first one.
Kernels limit the indices in the list to the valid range, whatever the list contains.

Weights are ``[K, local_experts, N]``, or codes of this shape with scales. Since a token's sum
contains products with several experts, which have different scales, codes are multiplied by their
scales as they are unpacked. A PE would unpack a few rows at a time into scratch buffers. The
compiled kernels unpack them in registers.

PEs of a block that have the same pair are computed together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import choose_lanes, lane_choice, lane_values
from wse_kernels.compute._slices import group_of_column
from wse_kernels.operands.experts import (
    BlockScaledExpertTensors,
    BlockScaledInputProduct,
    BlockScales,
    ColumnGroups,
    ExpertBiasShape,
    ExpertBiasTensors,
    ExpertShape,
    ExpertTensors,
    InputProduct,
    Mxfp4ExpertTensors,
    OutputProduct,
    QuantisedExpertTensors,
    QuantisedScales,
)
from wse_kernels.operands.group import Place
from wse_kernels.products.code_product import multiply_scaled_codes
from wse_kernels.products.codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4
from wse_kernels.products.tiles import CodeTile, Tile
from wse_kernels.products.vector_product import multiply_vector

NO_PAIR = np.float32(-1.0)  # in place of the number of a pair


class _Views(NamedTuple):
    """Views of SRAM, in several element types, that a product with expert weights uses.

    Attributes:
        acc, act, f32: Views of accumulators, activations and float32.
        raw: View of bytes, which contain quantised weights. It may be any view if the weights are
            not quantised.
        scales: View of the scales, or of the weights themselves if these are not quantised.
    """

    acc: Any
    act: Any
    scales: Any
    raw: Any
    f32: Any


class _PairRows(NamedTuple):
    """Addresses of the activations and sums of each (token, expert) pair.

    They are linear functions of the indices of token and pair.

    Attributes:
        out, x: Addresses of sums and activations for token 0 and pair 0.
        out_by_token, out_by_pair: Distances in the sums from one token, or pair, to the next.
        x_by_token, x_by_pair: The same distances in the activations.
    """

    out: int
    out_by_token: int
    out_by_pair: int
    x: int
    x_by_token: int
    x_by_pair: int


def expert_pairs(place: Place, f32, ids, weights, pairs, M, A, P, experts, division: ColumnGroups):
    """List the (token, selected expert) pairs whose expert is stored in this column of PEs.

    Pairs are sorted by token, and for each token in the order in which the experts were selected.
    The columns form segments of equal width, and each segment is divided into groups. Experts are
    divided evenly among the segments, and then among the groups of a segment.

    Args:
        place, f32: Position of the block of PEs, and the float32 view of their SRAM.
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the count, then (token, index of the expert in the
            column, weight) for each pair.
        M, A, P: Tokens; experts per token; maximum number of pairs in the list.
        experts: Number of experts of the layer.
        division: Groups of columns that store different experts.
    """
    block, columns, groups, segments = place.block, division.columns, division.groups, division.segments
    width = columns // segments
    for lane in range(f32.shape[2]):
        segment, col = (place.col + lane) // width, (place.col + lane) % width
        experts_in_segment = experts // segments + (1 if segment < experts % segments else 0)
        min_experts, fuller_groups = experts_in_segment // groups, experts_in_segment % groups
        group, _, _ = group_of_column(col, width, groups)
        first = segment * (experts // segments) + min(segment, experts % segments)
        first += group * min_experts + min(group, fuller_groups)
        local_experts = min_experts + (1 if group < fuller_groups else 0)
        count = 0
        for p in range(M * A):
            local = np.int64(f32[block, ids + p, lane]) - first
            if local >= 0 and local < local_experts and count < P:
                at = pairs + 1 + 3 * count
                f32[block, at, lane] = np.float32(p // A)
                f32[block, at + 1, lane] = np.float32(local)
                f32[block, at + 2, lane] = f32[block, weights + p, lane]
                count += 1
        f32[block, pairs, lane] = np.float32(count)


def expert_in(place: Place, act, wgt, acc, f32, at: ExpertTensors, shape: ExpertShape, product: InputProduct):
    """Multiply activations by the input weights of the selected experts, one product per pair.

    A pair is a token and one of its selected experts: out[pair, N] = x[token, K] @ w[expert][K, N].

    Args:
        place, act, wgt, acc, f32: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
    """
    tile = CodeTile(at.w, 0, 0, 0, shape.K, shape.N, product.k_stride, 0, 0, 0)
    views = _Views(acc, act, wgt, wgt, f32)
    _products_of_tokens(_multiply_elements, place, views, at, shape, product, tile, 0)


def expert_out(place: Place, act, wgt, acc, f32, at: ExpertTensors, shape: ExpertShape, product: OutputProduct):
    """Multiply by the output weights of the selected experts, and sum the products of each token.

    A pair is a token and one of its selected experts. out[token, N] = sum over the token's pairs of
    x[pair, K] @ w[expert][K, N]. It is 0 for a token without pairs.

    Args:
        place, act, wgt, acc, f32: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
    """
    tile = CodeTile(at.w, 0, 0, 0, shape.K, shape.N, shape.local_experts * shape.N, 0, 0, 0)
    views = _Views(acc, act, wgt, wgt, f32)
    _sums_of_tokens(_multiply_elements, place, views, at, shape, product, tile, 0)


def expert_in_quantised(
    place: Place,
    act,
    wgt,
    acc,
    f32,
    raw,
    at: QuantisedExpertTensors,
    shape: ExpertShape,
    product: InputProduct,
    scales: QuantisedScales,
):
    """Multiply activations by the int8, FP8 or int4 input weights of the selected experts.

    A pair is a token and one of its selected experts. Each weight is multiplied by its scale:
    out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, N]).

    Args:
        place, act, wgt, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        scales: Format of the weights, and groups of rows that share scales.
    """
    K, N, stride = shape.K, shape.N, product.k_stride
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, scales.G, N)
    views = _Views(acc, act, wgt, raw, f32)
    _products_of_tokens(_multiply_quantised, place, views, at, shape, product, tile, scales.coding)


def expert_in_mxfp4(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: Mxfp4ExpertTensors,
    shape: ExpertShape,
    product: InputProduct,
    G,
    rows,
):
    """Multiply activations by the MXFP4 input weights of the selected experts.

    A pair is a token and one of its selected experts. Each weight is an e2m1 code multiplied by its
    e8m0 scale: out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, N]).

    Args:
        place, act, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Rows of the scratch buffer that a real PE needs.
    """
    K, N, stride = shape.K, shape.N, product.k_stride
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, G, N)
    views = _Views(acc, act, raw, raw, f32)
    _products_of_tokens(_multiply_mxfp4, place, views, at, shape, product, tile, MXFP4)


def expert_in_fp8_blocks(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: BlockScaledExpertTensors,
    shape: ExpertShape,
    product: BlockScaledInputProduct,
    scales: BlockScales,
):
    """Multiply activations by the FP8 input weights, with block scales, of the selected experts.

    A pair is a token and one of its selected experts. Each weight is an e4m3 code multiplied by its
    float32 scale: out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, block of
    N]).

    Args:
        place, act, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        scales: Groups of rows, and blocks of outputs, that share scales.
    """
    k_stride, scale_stride = product.k_stride, product.scale_stride
    tile = CodeTile(
        at.w, at.groups, at.widths, at.scale, shape.K, shape.N, k_stride, scale_stride, scales.G, scales.B
    )  # fmt: skip
    views = _Views(acc, act, f32, raw, f32)
    _products_of_tokens(_multiply_fp8_blocks, place, views, at, shape, product, tile, FP8_BLOCKS)


def expert_out_quantised(
    place: Place,
    act,
    wgt,
    acc,
    f32,
    raw,
    at: QuantisedExpertTensors,
    shape: ExpertShape,
    product: OutputProduct,
    scales: QuantisedScales,
):
    """Multiply by the int8, FP8 or int4 output weights of the selected experts, and sum per token.

    A pair is a token and one of its selected experts. Each weight is multiplied by its scale:
    out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] * scale[groups[K],
    expert, N]).

    Args:
        place, act, wgt, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Format of the weights, and groups of rows that share scales.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, scales.G, N)
    views = _Views(acc, act, wgt, raw, f32)
    _sums_of_tokens(_multiply_quantised, place, views, at, shape, product, tile, scales.coding)


def expert_out_mxfp4(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: Mxfp4ExpertTensors,
    shape: ExpertShape,
    product: OutputProduct,
    G,
    rows,
):
    """Multiply by the MXFP4 output weights of the selected experts, and sum per token.

    A pair is a token and one of its selected experts. Each weight is an e2m1 code multiplied by its
    e8m0 scale: out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] *
    scale[groups[K], expert, N]).

    Args:
        place, act, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Rows of the scratch buffer that a real PE needs.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, G, N)
    views = _Views(acc, act, raw, raw, f32)
    _sums_of_tokens(_multiply_mxfp4, place, views, at, shape, product, tile, MXFP4)


def expert_out_fp8_blocks(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: BlockScaledExpertTensors,
    shape: ExpertShape,
    product: OutputProduct,
    scales: BlockScales,
):
    """Multiply by the block-scaled FP8 output weights of the selected experts, and sum per token.

    A pair is a token and one of its selected experts. Each weight is an e4m3 code multiplied by its
    float32 scale: out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] *
    scale[groups[K], expert, block of N]).

    Args:
        place, act, acc, f32, raw: Position of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Groups of rows, and blocks of outputs, that share scales.
    """
    k_stride, scale_stride = shape.local_experts * shape.N, shape.local_experts * scales.B
    tile = CodeTile(
        at.w, at.groups, at.widths, at.scale, shape.K, shape.N, k_stride, scale_stride, scales.G, scales.B
    )  # fmt: skip
    views = _Views(acc, act, f32, raw, f32)
    _sums_of_tokens(_multiply_fp8_blocks, place, views, at, shape, product, tile, FP8_BLOCKS)


@helper_function
def _products_of_tokens(multiply, place, views, at, shape, product, tile, coding):
    """Multiply the token of each (token, expert) pair by the expert's weights, a row per pair.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert.
        place, views: Position of the block of PEs, and views of their SRAM.
        at, shape, product: Operands of the kernel: addresses, sizes and settings.
        tile: Weights of the column's first expert.
        coding: Number of the format of quantised weights.
    """
    rows = _PairRows(at.out, 0, product.out_stride, at.x, shape.K, 0)
    lane_count = min(views.acc.shape[2], product.columns - place.col)
    _over_pairs(multiply, place.block, lane_count, views, at.pairs, shape, rows, tile, coding, 0)
    if product.weighted == 1:
        out = at.out, product.out_stride, shape.N
        _weigh(views.acc, views.f32, place.block, out, at.pairs, shape.P, lane_count)


@helper_function
def _sums_of_tokens(multiply, place, views, at, shape, product, tile, coding):
    """Sum, for each token, the products of its activations with the weights of its experts.

    Each (token, expert) pair in the list has activations of its own.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert.
        place, views: Position of the block of PEs, and views of their SRAM.
        at, shape, product: Operands of the kernel: addresses, sizes and settings.
        tile: Weights of the column's first expert.
        coding: Number of the format of quantised weights.
    """
    lane_count = min(views.acc.shape[2], product.columns - place.col)
    if product.weighted == 1:
        x = at.x, shape.K, shape.K
        _weigh(views.act, views.f32, place.block, x, at.pairs, shape.P, lane_count)
    clear_rows(views.acc, place.block, at.out, shape.M * shape.N)
    rows = _PairRows(at.out, shape.N, 0, at.x, 0, shape.K)
    _over_pairs(multiply, place.block, lane_count, views, at.pairs, shape, rows, tile, coding, 1)


@helper_function
def _over_pairs(multiply, block, lane_count, views, pairs, shape, rows, tile, coding, add):
    """Multiply the activations of every (token, expert) pair by the weights of its expert.

    Each PE of the block has a list of pairs. The PEs that have the same pair are computed together.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert, on selected PEs.
        block, lane_count: Index of the block of PEs; number of PEs in it.
        views, pairs: Views of SRAM; address of the list of pairs.
        shape, rows: Sizes; addresses of the vectors of each pair.
        tile: Weights of the column's first expert.
        coding: Number of the format of quantised weights.
        add: 1 to add products to the sums, 0 to overwrite the sums.
    """
    f32, M, local_experts = views.f32, shape.M, shape.local_experts
    numbers, choice = lane_values(lane_count), lane_choice()  # numbers of pairs are exact up to 2 ** 24
    for i in range(shape.P):
        at = pairs + 1 + 3 * i
        for lane in range(lane_count):
            numbers[lane] = NO_PAIR
            if i < f32[block, pairs, lane]:
                token, expert = _index(f32, block, at, lane, M), _index(f32, block, at + 1, lane, local_experts)
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
    """Return the location of an expert's weights and scales.

    Args:
        tile: Location of the weights and scales of the column's first expert.
        expert: Index of the expert in the column.
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
def _multiply_elements(views, choice, block, out, x, tile, add, coding):
    """Multiply a vector by the unquantised weights of an expert, on selected PEs.

    The function is passed to `_over_pairs`, and ``coding`` is not used.
    """
    elements = Tile(tile.w, tile.K, tile.N, tile.k_stride, 1)
    multiply_vector((views.acc, views.act, views.scales), choice, block, out, x, elements, add)


def _multiply_by(coding):
    """Return a function that multiplies a vector by quantised weights of one format.

    The function is passed to `_over_pairs`. The format is a constant in it, because the code is
    compiled for one format. The format that `_over_pairs` passes is ignored.
    """

    @helper_function
    def multiply(views, choice, block, out, x, tile, add, _):
        views_of_codes = views.acc, views.act, views.scales, views.raw
        multiply_scaled_codes(views_of_codes, choice, block, out, x, tile, add, coding)

    return multiply


_multiply_int8, _multiply_int4, _multiply_fp8 = (_multiply_by(coding) for coding in (INT8, INT4, FP8))
_multiply_mxfp4, _multiply_fp8_blocks = (_multiply_by(coding) for coding in (MXFP4, FP8_BLOCKS))


@helper_function
def _multiply_quantised(views, choice, block, out, x, tile, add, coding):
    """Multiply a vector by the int8, FP8 or int4 weights of an expert, on selected PEs.

    The function is passed to `_over_pairs`.
    """
    if coding == INT8:
        _multiply_int8(views, choice, block, out, x, tile, add, coding)
    elif coding == FP8:
        _multiply_fp8(views, choice, block, out, x, tile, add, coding)
    else:
        _multiply_int4(views, choice, block, out, x, tile, add, coding)


def expert_bias(
    place: Place,
    wgt,
    acc,
    f32,
    at: ExpertBiasTensors,
    shape: ExpertBiasShape,
    by_token,
    weighted,
    share,
    division: ColumnGroups,
):
    """Add the biases of selected experts that this PE stores to the sums of pairs or tokens.

    A pair is a token and one of its selected experts. For each pair in the list, x[pair, N] +=
    bias[expert, N], or x[token, N] += bias[expert, N] if ``by_token``. This is done for each part
    of the outputs (gate and up, for example).

    A column's biases of a part, [local_experts, N], are divided into blocks of ``share`` elements.
    The blocks are distributed in order over the rows of the column or, if ``by_token``, over the
    columns of its group.

    Args:
        place, wgt, acc, f32: Position of the block of PEs, and views of their SRAM.
        at: Addresses of sums, biases and pairs.
        shape: P pairs, M tokens, N outputs in each part, parts, and experts of the column.
        by_token: 1 to add to the sums of tokens, 0 to add to the sums of pairs.
        weighted: 1 to multiply biases by routing weights, else 0.
        share: Number of biases of a part on one PE.
        division: Groups of columns that store different experts.
    """
    block, pairs, N = place.block, at.pairs, shape.N
    width = division.columns // division.segments
    for lane in range(acc.shape[2]):
        stored_block = place.row
        if by_token == 1:
            col = (place.col + lane) % width
            _, first_column, _ = group_of_column(col, width, division.groups)
            stored_block = col - first_column
        for i in range(shape.P):
            pair = pairs + 1 + 3 * i
            if i < f32[block, pairs, lane]:
                token = _index(f32, block, pair, lane, shape.M)
                expert = _index(f32, block, pair + 1, lane, shape.local_experts)
                row = at.x + (token if by_token == 1 else i) * shape.stride
                weight = f32[block, pair + 2, lane] if weighted == 1 else np.float32(1.0)
                first = stored_block * share - expert * N  # negative if the PE's block begins before this expert
                for part in range(shape.parts):
                    sums, biases = row + part * N, at.bias + part * share - first
                    for n in range(max(first, 0), min(first + share, N)):
                        old = acc[block, sums + n, lane]
                        addend = widen(wgt[block, biases + n, lane]) * weight
                        acc[block, sums + n, lane] = narrow(widen(old) + addend, old)


@helper_function
def _index(f32, block, at, lane, count):
    """Read a token or expert index from a list of pairs, and limit it to the valid range.

    Args:
        f32, block, at, lane: float32 view of SRAM, and block, address and lane of the index.
        count: Number of valid indices. The result is at most ``count`` - 1.
    """
    return min(max(np.int64(f32[block, at, lane]), 0), count - 1)


@helper_function
def _weigh(view, f32, block, vectors, pairs, P, lane_count):
    """Multiply the vector of each (token, expert) pair by its routing weight, in place.

    Args:
        view, f32, block: View with the vectors, float32 view with the list of pairs, and index of
            the block of PEs.
        vectors: Address of the first vector, distance between vectors, and elements of a vector.
        pairs, P: Address of the list; maximum number of pairs in it.
        lane_count: Number of PEs in the block.
    """
    first, stride, n = vectors
    for i in range(P):
        for e in range(first + i * stride, first + i * stride + n):
            for lane in range(lane_count):
                if i < f32[block, pairs, lane]:
                    old = view[block, e, lane]
                    view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)
