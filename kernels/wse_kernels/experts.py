"""Products with the experts that tokens were routed to: a PE works through the list of pairs of its column.

A *pair* is a token and one of the experts chosen for it. The list ``pairs``, float32, is their count and then for each
pair (token, expert counted from the column's first, weight); a PE takes tiles by the indices that it finds there, never
more than P pairs and never beyond its M tokens or its ``local_experts``, those of its column, for any list says.
``w`` is ``[K, local_experts, N]``, or the codes of that with their scales, of which a PE takes of each row the stretch
of the expert. A token's sums go over experts with scales of their own, so codes are scaled as they are unpacked: by PEs
``rows`` rows at once into the scratch ``codes``, with the scales of a row's group in ``factors``, here in registers.

PEs of a block with the same pair are worked on side by side; ``columns``, those of the mesh, tells PEs from lanes
without one. With ``weighted`` of 1 a product is multiplied by the pairs' weights.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._code_product import multiply_scaled_codes
from wse_kernels._codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4
from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import choose_lanes, lane_choice, lane_values
from wse_kernels._shares import group_of_column
from wse_kernels._vector_product import multiply_vector

NO_PAIR = np.float32(-1.0)  # instead of the number of a pair


def expert_pairs(block, block_col, f32, ids, weights, pairs, M, A, P, experts, groups, columns, stretches):
    """pairs[1 + 3 P] = the list of the pairs whose expert the PE's column stores, in the order of tokens and choices.

    Of each token ``ids[M, A]`` are the chosen experts and ``weights[M, A]`` their weights. The columns of each of some
    equal ``stretches`` are cut into ``groups`` of sizes that differ by at most one, the larger ones first; in the same
    way experts are shared out over the stretches, and those of a stretch over its groups.
    """
    width = columns // stretches
    for lane in range(f32.shape[2]):
        stretch, col = (block_col + lane) // width, (block_col + lane) % width
        of_stretch = experts // stretches + (1 if stretch < experts % stretches else 0)
        fewest, fuller_groups = of_stretch // groups, of_stretch % groups
        group, _, _ = group_of_column(col, width, groups)
        first = stretch * (experts // stretches) + min(stretch, experts % stretches)
        first += group * fewest + min(group, fuller_groups)
        local_experts = fewest + (1 if group < fuller_groups else 0)
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
    """out[pair, N] = x[token, K] @ w[expert][K, N], times the pair's weight where that is requested.

    ``k_stride`` is the stride of ``w`` along K and ``out_stride`` that of ``out`` along pairs, in elements.
    """
    _products_of_tokens(
        _multiply_elements, block, block_col, act, wgt, acc, f32, wgt,
        x, w, w, w, w, pairs, out, P, M, K, N, local_experts, k_stride, 0, out_stride, weighted, columns, 0, 0, 0,
    )  # fmt: skip


def expert_out(block, block_col, act, wgt, acc, f32, x, w, pairs, out, P, M, K, N, local_experts, weighted, columns):
    """out[token, N] = the sum over the token's pairs of x[pair, K] @ w[expert][K, N]; 0 for a token without any.

    Where that is requested, x is first multiplied by the pairs' weights, in place.
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
    """out[pair, N] = x[token, K] @ (w x scale)[expert][K, N], times the pair's weight where that is requested.

    ``k_stride`` is the stride of codes and scales along rows and ``out_stride`` that of ``out`` along pairs, in
    elements; ``groups`` has the group of each row, of G, and is read for int4 alone.
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
    """`expert_in_quantised` with e2m1 codes and a power of two, a byte, for each output and group of rows."""
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
    """`expert_in_quantised` with e4m3 codes and a float32 scale for each of B runs of outputs and group of rows.

    ``widths`` has the outputs of each run of an expert; ``scale_stride`` is the stride of scales along groups.
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
    """out[token, N] = the sum over the token's pairs of x[pair, K] @ (w x scale)[expert][K, N]; 0 without any.

    Where that is requested, x is first multiplied by the pairs' weights, in place. ``groups`` has the group of each
    row, of G, and is read for int4 alone.
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
    """`expert_out_quantised` with e2m1 codes and a power of two, a byte, for each output and group of rows."""
    _sums_of_tokens(
        _multiply_mxfp4, block, block_col, act, raw, acc, f32, raw,
        x, w, groups, w, scale, pairs, out, P, M, K, N, local_experts, weighted, columns, MXFP4, G, N,
    )  # fmt: skip


def expert_out_fp8_blocks(
    block, block_col, act, acc, f32, raw,
    x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, B, rows,
):  # fmt: skip
    """`expert_out_quantised` with e4m3 codes and a float32 scale for each of B runs of outputs and group of rows."""
    _sums_of_tokens(
        _multiply_fp8_blocks, block, block_col, act, f32, acc, f32, raw,
        x, w, groups, widths, scale, pairs, out, P, M, K, N, local_experts, weighted, columns, FP8_BLOCKS, G, B,
    )  # fmt: skip


@helper_function
def _products_of_tokens(
    multiply, block, block_col, act, scales, acc, f32, raw, x, w, groups, widths, scale, pairs, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, coding, G, B,
):  # fmt: skip
    """The products of tokens, one a pair, by what `_over_pairs` calls."""
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
    """The sums of tokens over the products of their pairs, by what `_over_pairs` calls."""
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
    """``multiply`` for every pair of the lists, with the PEs that have the same one at once.

    Vectors of ``x`` and ``out`` are so far apart by token and by pair. An expert has N columns of codes, B of scales.
    """
    numbers, choice = lane_values(lane_count), lane_choice()  # of pairs: exact up to 2 ** 24
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
    multiply_vector(acc, act, wgt, choice, block, out, x, w, K, N, k_stride, 1, add)


def _multiply_by(coding):
    """The product with codes of one coding, as `_over_pairs` calls it; the number of theirs is of no use here."""

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
    operands = (K, N, k_stride, scale_stride, G, B, add, coding)
    if coding == INT8:
        _multiply_int8(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)
    elif coding == FP8:
        _multiply_fp8(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)
    else:
        _multiply_int4(acc, act, scales, raw, choice, block, out, x, w, groups, widths, scale, *operands)


def expert_bias(
    block, block_row, block_col, wgt, acc, f32,
    x, bias, pairs, P, M, N, parts, local_experts, stride, by_token, weighted, share, columns, groups, stretches,
):  # fmt: skip
    """x[pair, N] += bias[expert, N] where the PE stores that; by token instead x[token, N], times the weight if asked.

    So each of ``parts``, N elements behind each other in ``x``, whose biases the PE holds one after another. A column's
    biases of a part, ``[local_experts, N]``, are shared out in blocks of ``share`` elements: among its rows, or, by
    token, among the columns of its group, in their order. ``stride`` is that of ``x`` along its rows in elements;
    ``by_token`` is 1 for rows by token. ``groups`` and ``stretches`` are those of `expert_pairs`.
    """
    for lane in range(acc.shape[2]):
        place = block_row
        if by_token == 1:
            col = (block_col + lane) % (columns // stretches)
            _, first_column, _ = group_of_column(col, columns // stretches, groups)
            place = col - first_column
        for i in range(P):
            at = pairs + 1 + 3 * i
            if i < f32[block, pairs, lane]:
                token, expert = _index(f32, block, at, lane, M), _index(f32, block, at + 1, lane, local_experts)
                row = x + (token if by_token == 1 else i) * stride
                weight = f32[block, at + 2, lane] if weighted == 1 else np.float32(1.0)
                before = place * share - expert * N  # of the expert's elements, those that other PEs store
                for part in range(parts):
                    start, held = row + part * N, bias + part * share - before
                    for n in range(max(before, 0), min(before + share, N)):
                        old = acc[block, start + n, lane]
                        added = widen(wgt[block, held + n, lane]) * weight
                        acc[block, start + n, lane] = narrow(widen(old) + added, old)


@helper_function
def _index(f32, block, at, lane, count):
    """The index that a list holds, of so many."""
    return min(max(np.int64(f32[block, at, lane]), 0), count - 1)


@helper_function
def _weigh(view, f32, block, x, stride, n, pairs, P, lane_count):
    """view[x + i stride + e] *= the weight of pair i, e < n, in the lanes that have so many pairs."""
    for i in range(P):
        for e in range(x + i * stride, x + i * stride + n):
            for lane in range(lane_count):
                if i < f32[block, pairs, lane]:
                    old = view[block, e, lane]
                    view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)
