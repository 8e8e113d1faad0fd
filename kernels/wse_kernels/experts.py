"""Compute kernels that multiply tokens by the experts that were selected for them.

A *pair* is a token and one of the experts selected for it. Every PE works through the list of the
pairs of its column. The list ``pairs`` is float32: the number of pairs, then (token, expert,
weight) for each pair, with experts counted from the column's first one. Indices from the list are
limited to M tokens, ``local_experts`` experts of the column and P pairs, whatever the list
contains.

Weights ``w`` are ``[K, local_experts, N]``, or codes of this shape with scales. Since a token's sum
contains products with several experts, which have different scales, codes are multiplied by their
scales as they are unpacked. A PE would unpack ``rows`` rows at a time into the scratch buffer
``codes``, with the scales of a row's group in ``factors``. The compiled kernels unpack them in
registers.

PEs of a block that have the same pair are computed together. ``columns`` is the number of mesh
columns; lanes beyond it have no PE. If ``weighted`` is 1, a product is multiplied by the pair's
routing weight.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._code_product import multiply_scaled_codes
from wse_kernels._codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4
from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import choose_lanes, lane_choice, lane_values
from wse_kernels._slices import group_of_column
from wse_kernels._vector_product import multiply_vector

NO_PAIR = np.float32(-1.0)  # in place of the number of a pair


def expert_pairs(block, block_col, f32, ids, weights, pairs, M, A, P, experts, groups, columns, segments):
    """Write the list of the pairs (token, selected expert) whose expert is stored in this column.

    Pairs are in the order of tokens, and of the selection within a token. The mesh columns form
    ``segments`` equal segments, and each segment has ``groups`` groups of columns whose sizes
    differ by at most one, the larger first. Experts are divided in the same way: first over
    segments, then over the groups of a segment.

    Args:
        block, block_col, f32: Block of PEs, mesh column of its first PE, and float32 view of SRAM.
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the count, then (token, expert, weight) for each pair.
        M, A, P: Tokens; experts per token; maximum number of pairs in the list.
        experts, groups, columns, segments: Experts in all; groups per segment; mesh columns;
            segments.
    """
    width = columns // segments
    for lane in range(f32.shape[2]):
        segment, col = (block_col + lane) // width, (block_col + lane) % width
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


def expert_in(
    block, block_col, act, wgt, acc, f32,
    x, w, pairs, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns,
):  # fmt: skip
    """Multiply tokens by the input weights of the experts selected for them.

    out[pair, N] = x[token, K] @ w[expert][K, N].

    Args:
        block, block_col, act, wgt, acc, f32: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x, w: Addresses of the activations [M, K] and of the weights [K, local_experts, N].
        pairs: Address of the list of pairs (token, expert, weight) of this column.
        out: Address of the products in the accumulator type, a row for each pair.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        k_stride, out_stride: Strides in elements: of ``w`` along K, of ``out`` along pairs.
        weighted: 1 to multiply each product by the pair's routing weight, else 0.
        columns: Columns of the mesh.
    """
    _products_of_tokens(
        _multiply_elements, block, block_col, act, wgt, acc, f32, wgt,
        x, w, w, w, w, pairs, out, P, M, K, N, local_experts, k_stride, 0, out_stride, weighted, columns, 0, 0, 0,
    )  # fmt: skip


def expert_out(block, block_col, act, wgt, acc, f32, x, w, pairs, out, P, M, K, N, local_experts, weighted, columns):
    """Multiply pairs by the output weights of their experts, and sum the products of each token.

    out[token, N] = sum over the token's pairs of x[pair, K] @ w[expert][K, N]. It is 0 for a token
    without pairs.

    Args:
        block, block_col, act, wgt, acc, f32: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x: Address of the activations [P, K]. If ``weighted``, each row is first multiplied in place
            by its routing weight.
        w: Address of the weights [K, local_experts, N].
        pairs: Address of the list of pairs (token, expert, weight) of this column.
        out: Address of the sums [M, N] in the accumulator type.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        weighted, columns: 1 to apply routing weights, else 0; columns of the mesh.
    """
    _sums_of_tokens(
        _multiply_elements, block, block_col, act, wgt, acc, f32, wgt,
        x, w, w, w, w, pairs, out, P, M, K, N, local_experts, weighted, columns, 0, 0, 0,
    )  # fmt: skip


def expert_in_quantised(
    block, block_col, act, wgt, acc, f32, raw,
    x, w, groups, scale, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, coding, G, rows,
):  # fmt: skip
    """Compute `expert_in` with int8, FP8 or int4 codes, each multiplied by its scale.

    Args:
        block, block_col, act, wgt, acc, f32, raw: Block of PEs, mesh column of its first PE, and
            views of SRAM.
        x, w: Addresses of the activations [M, K] and of the codes.
        groups: Address of the scale group of each row, one byte each. Read for int4 only.
        scale: Address of the scales, in the weight type.
        pairs, out: Addresses of the list of pairs and of the products, a row for each pair.
        codes, rows: Unused here. Scratch buffer of the PE, and its number of rows.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        k_stride: Stride of codes and scales along rows, in elements.
        out_stride: Stride of ``out`` along pairs, in elements.
        weighted, columns: 1 to apply routing weights, else 0; columns of the mesh.
        coding, G: Number of the coding; groups of rows that share scales.
    """
    _products_of_tokens(
        _multiply_quantised, block, block_col, act, wgt, acc, f32, raw,
        x, w, groups, w, scale, pairs, out,
        P, M, K, N, local_experts, k_stride, k_stride, out_stride, weighted, columns, coding, G, N,
    )  # fmt: skip


def expert_in_mxfp4(
    block, block_col, act, acc, f32, raw,
    x, w, groups, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, G, rows,
):  # fmt: skip
    """Compute `expert_in` with MXFP4 weights: e2m1 codes and e8m0 scales.

    There is a scale, a power of two of one byte, for each output and group of rows.

    Args:
        block, block_col, act, acc, f32, raw: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x, w, groups, scale, pairs, out: Addresses, as in `expert_in_quantised`.
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows.
        P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, G: As in
            `expert_in_quantised`.
    """
    _products_of_tokens(
        _multiply_mxfp4, block, block_col, act, raw, acc, f32, raw,
        x, w, groups, w, scale, pairs, out,
        P, M, K, N, local_experts, k_stride, k_stride, out_stride, weighted, columns, MXFP4, G, N,
    )  # fmt: skip


def expert_in_fp8_blocks(
    block, block_col, act, acc, f32, raw,
    x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, G, B, rows,
):  # fmt: skip
    """Compute `expert_in` with FP8 weights and block scales: e4m3 codes and float32 scales.

    There is a scale for each group of rows and each of B blocks of neighbouring outputs of an
    expert.

    Args:
        block, block_col, act, acc, f32, raw: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x, w, groups, scale, pairs, out: Addresses, as in `expert_in_quantised`.
        widths: Address of the number of outputs in each of the B blocks, one byte each.
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        k_stride, scale_stride, out_stride: Strides in elements: of codes along rows, of scales
            along groups, of ``out`` along pairs.
        weighted, columns: 1 to apply routing weights, else 0; columns of the mesh.
        G, B: Groups of rows and blocks of outputs that share a scale.
    """
    _products_of_tokens(
        _multiply_fp8_blocks, block, block_col, act, f32, acc, f32, raw,
        x, w, groups, widths, scale, pairs, out,
        P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, FP8_BLOCKS, G, B,
    )  # fmt: skip


def expert_out_quantised(
    block, block_col, act, wgt, acc, f32, raw,
    x, w, groups, scale, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, coding, G, rows,
):  # fmt: skip
    """Compute `expert_out` with int8, FP8 or int4 codes, each multiplied by its scale.

    Args:
        block, block_col, act, wgt, acc, f32, raw: Block of PEs, mesh column of its first PE, and
            views of SRAM.
        x: Address of the activations [P, K]. If ``weighted``, each row is first multiplied in place
            by its routing weight.
        w, scale: Addresses of the codes, and of the scales in the weight type.
        groups: Address of the scale group of each row, one byte each. Read for int4 only.
        pairs, out: Addresses of the list of pairs, and of the sums [M, N].
        codes, rows: Unused here. Scratch buffer of the PE, and its number of rows.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        weighted, columns: 1 to apply routing weights, else 0; columns of the mesh.
        coding, G: Number of the coding; groups of rows that share scales.
    """
    _sums_of_tokens(
        _multiply_quantised, block, block_col, act, wgt, acc, f32, raw,
        x, w, groups, w, scale, pairs, out, P, M, K, N, local_experts, weighted, columns, coding, G, N,
    )  # fmt: skip


def expert_out_mxfp4(
    block, block_col, act, acc, f32, raw,
    x, w, groups, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, rows,
):  # fmt: skip
    """Compute `expert_out` with MXFP4 weights: e2m1 codes and e8m0 scales.

    There is a scale, a power of two of one byte, for each output and group of rows.

    Args:
        block, block_col, act, acc, f32, raw: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x, w, groups, scale, pairs, out: Addresses, as in `expert_out_quantised`.
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows.
        P, M, K, N, local_experts, weighted, columns, G: As in `expert_out_quantised`.
    """
    _sums_of_tokens(
        _multiply_mxfp4, block, block_col, act, raw, acc, f32, raw,
        x, w, groups, w, scale, pairs, out, P, M, K, N, local_experts, weighted, columns, MXFP4, G, N,
    )  # fmt: skip


def expert_out_fp8_blocks(
    block, block_col, act, acc, f32, raw,
    x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, B, rows,
):  # fmt: skip
    """Compute `expert_out` with FP8 weights and block scales: e4m3 codes and float32 scales.

    There is a scale for each group of rows and each of B blocks of neighbouring outputs of an
    expert.

    Args:
        block, block_col, act, acc, f32, raw: Block of PEs, mesh column of its first PE, and views
            of SRAM.
        x, w, groups, scale, pairs, out: Addresses, as in `expert_out_quantised`.
        widths: Address of the number of outputs in each of the B blocks, one byte each.
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows.
        P, M, K, N, local_experts, weighted, columns, G, B: As in `expert_out_quantised`; blocks of
            outputs.
    """
    _sums_of_tokens(
        _multiply_fp8_blocks, block, block_col, act, f32, acc, f32, raw,
        x, w, groups, widths, scale, pairs, out, P, M, K, N, local_experts, weighted, columns, FP8_BLOCKS, G, B,
    )  # fmt: skip


@helper_function
def _products_of_tokens(
    multiply, block, block_col, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, coding, G, B,
):  # fmt: skip
    """Compute the product of each pair's token with its expert, a row of ``out`` for each pair.

    A pair is a token and one of its selected experts. ``multiply`` is the product function for the
    coding of the weights. The other operands are those of `_over_pairs`.
    """
    lane_count = min(acc.shape[2], columns - block_col)
    _over_pairs(
        multiply, block, lane_count, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
        P, M, K, N, local_experts, k_stride, scale_stride, K, 0, 0, out_stride, coding, G, B, 0,
    )  # fmt: skip
    if weighted == 1:
        _weigh(acc, f32, block, out, out_stride, N, pairs, P, lane_count)


@helper_function
def _sums_of_tokens(
    multiply, block, block_col, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
    P, M, K, N, local_experts, weighted, columns, coding, G, B,
):  # fmt: skip
    """Compute for each token the sum of the products of its pairs with their experts.

    A pair is a token and one of its selected experts. ``multiply`` is the product function for the
    coding of the weights. The other operands are those of `_over_pairs`.
    """
    lane_count = min(acc.shape[2], columns - block_col)
    if weighted == 1:
        _weigh(act, f32, block, x, K, K, pairs, P, lane_count)
    clear_rows(acc, block, out, M * N)
    _over_pairs(
        multiply, block, lane_count, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
        P, M, K, N, local_experts, local_experts * N, local_experts * B, 0, K, N, 0, coding, G, B, 1,
    )  # fmt: skip


@helper_function
def _over_pairs(
    multiply, block, lane_count, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
    P, M, K, N, local_experts, k_stride, scale_stride, x_by_token, x_by_pair, out_by_token, out_by_pair,
    coding, G, B, add,
):  # fmt: skip
    """Call ``multiply`` for every pair in the lists, once for all PEs with the same pair.

    Args:
        multiply: Function that multiplies one vector by the weights of one expert, in the chosen
            lanes.
        block, lane_count: Block of PEs; number of its lanes that have a PE.
        act, scales, acc, f32, raw: Views of SRAM.
        x, w, groups, widths, scale, pairs, out: Addresses of the operands.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        k_stride, scale_stride: Strides of codes along rows, and of scales along groups.
        x_by_token, x_by_pair: Distances of vectors in ``x`` from one token, or pair, to the next.
        out_by_token, out_by_pair: The same distances in ``out``.
        coding, G, B: Number of the coding; groups of rows; columns of scales per expert.
        add: 1 to add products to ``out``, 0 to overwrite it.
    """
    numbers, choice = lane_values(lane_count), lane_choice()  # numbers of pairs are exact up to 2 ** 24
    for i in range(P):
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
                multiply(
                    acc, act, scales, raw, choice, block, out + token * out_by_token + i * out_by_pair,
                    x + token * x_by_token + i * x_by_pair, w + expert * N, groups, widths, scale + expert * B,
                    K, N, k_stride, scale_stride, G, B, add, coding,
                )  # fmt: skip


@helper_function
def _multiply_elements(
    acc, act, wgt, raw, choice, block, out, x, w, groups, widths, scale,
    K, N, k_stride, scale_stride, G, B, add, coding,
):  # fmt: skip
    """Multiply one vector by the unquantised weights of an expert.

    The operands are those that `_over_pairs` passes to each product function.
    """
    multiply_vector(acc, act, wgt, choice, block, out, x, w, K, N, k_stride, 1, add)


def _multiply_by(coding):
    """Return the product function for codes of one coding, to be called by `_over_pairs`.

    The coding is a constant of the returned function, because it is compiled for one coding. The
    coding that `_over_pairs` passes is ignored.
    """

    @helper_function
    def multiply(
        acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale,
        K, N, k_stride, scale_stride, G, B, add, _,
    ):  # fmt: skip
        multiply_scaled_codes(
            acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale,
            K, N, k_stride, scale_stride, G, B, add, coding,
        )  # fmt: skip

    return multiply


_multiply_int8, _multiply_int4, _multiply_fp8 = (_multiply_by(coding) for coding in (INT8, INT4, FP8))
_multiply_mxfp4, _multiply_fp8_blocks = (_multiply_by(coding) for coding in (MXFP4, FP8_BLOCKS))


@helper_function
def _multiply_quantised(
    acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale,
    K, N, k_stride, scale_stride, G, B, add, coding,
):  # fmt: skip
    """Multiply one vector by the int8, FP8 or int4 codes of an expert.

    The operands are those that `_over_pairs` passes to each product function.
    """
    operands = (K, N, k_stride, scale_stride, G, B, add, coding)
    if coding == INT8:
        _multiply_int8(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)
    elif coding == FP8:
        _multiply_fp8(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)
    else:
        _multiply_int4(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)


def expert_bias(
    block, block_row, block_col, wgt, acc, f32,
    x, bias, pairs, P, M, N, parts, local_experts, stride, by_token, weighted, share, columns, groups, segments,
):  # fmt: skip
    """Add the biases of experts to the sums of their pairs, or to the sums of tokens.

    x[pair, N] += bias[expert, N], for the biases that this PE stores. If ``by_token``, x[token, N]
    is the target instead. This is done for each of ``parts`` parts of N consecutive elements.

    A column's biases of a part, [local_experts, N], are divided into blocks of ``share`` elements.
    The blocks are stored in the rows of the column in their order, or, if ``by_token``, in the
    columns of its group.

    Args:
        block, block_row, block_col, wgt, acc, f32: Block of PEs, mesh row and column of its first
            PE, views of SRAM.
        x, bias, pairs: Addresses of the sums, of this PE's biases [parts, share], and of the list
            of pairs.
        P, M, N, parts, local_experts: Maximum pairs; tokens; outputs per part; parts; experts of
            the column.
        stride: Elements from one row of ``x`` to the next.
        by_token, weighted: 1 to add to tokens, else 0; 1 to multiply biases by routing weights,
            else 0.
        share, columns: Elements per block of biases; columns of the mesh.
        groups, segments: Division of the columns, as in `expert_pairs`.
    """
    for lane in range(acc.shape[2]):
        place = block_row
        if by_token == 1:
            col = (block_col + lane) % (columns // segments)
            _, first_column, _ = group_of_column(col, columns // segments, groups)
            place = col - first_column
        for i in range(P):
            at = pairs + 1 + 3 * i
            if i < f32[block, pairs, lane]:
                token, expert = _index(f32, block, at, lane, M), _index(f32, block, at + 1, lane, local_experts)
                row = x + (token if by_token == 1 else i) * stride
                weight = f32[block, at + 2, lane] if weighted == 1 else np.float32(1.0)
                first_stored = place * share - expert * N  # negative if the PE's block begins before this expert
                for part in range(parts):
                    start, stored_bias = row + part * N, bias + part * share - first_stored
                    for n in range(max(first_stored, 0), min(first_stored + share, N)):
                        old = acc[block, start + n, lane]
                        addend = widen(wgt[block, stored_bias + n, lane]) * weight
                        acc[block, start + n, lane] = narrow(widen(old) + addend, old)


@helper_function
def _index(f32, block, at, lane, count):
    """Read an index from a list of pairs, limited to the range from 0 to ``count`` - 1.

    Args:
        f32, block, at, lane: float32 view of SRAM, and block, address and lane of the index.
        count: Number of valid indices.
    """
    return min(max(np.int64(f32[block, at, lane]), 0), count - 1)


@helper_function
def _weigh(view, f32, block, x, stride, n, pairs, P, lane_count):
    """Multiply the vector of each pair by the pair's routing weight, in place.

    Args:
        view, f32, block: View with the vectors, float32 view with the list of pairs, and block of
            PEs.
        x, stride, n: Address of the first vector; distance between vectors; elements of a vector.
        pairs, P, lane_count: Address of the list; maximum pairs; lanes that have a PE.
    """
    for i in range(P):
        for e in range(x + i * stride, x + i * stride + n):
            for lane in range(lane_count):
                if i < f32[block, pairs, lane]:
                    old = view[block, e, lane]
                    view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)
