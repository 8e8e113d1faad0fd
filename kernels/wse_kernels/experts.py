"""Products with the experts that tokens were routed to: a PE works through the list of pairs of its column.

A *pair* is a token and one of the experts chosen for it. The list ``pairs``, float32, is their count and then for each
pair (token, expert counted from the column's first, weight); a PE takes tiles by the indices that it finds there, never
more than P pairs and never beyond its M tokens or its ``local_experts``, those of its column, whatever the list says.
``w`` is ``[K, local_experts, N]``, or the codes of that with their scales, of which a PE takes of each row the stretch
of the expert. A token's sums go over experts with scales of their own, so codes are scaled as they are unpacked,
``rows`` rows at once into ``codes``; ``factors`` is scratch for the scales of a row's group.

PEs with the same pair are worked on side by side; ``columns``, those of the mesh, tells them from lanes without a PE.
With ``weighted`` of 1 a product is multiplied by the pairs' weights.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._codes import FP8_BLOCKS, MXFP4, unpack_scaled, unpack_with_factors
from wse_kernels._elements import clear_rows, multiply_add_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._shares import group_of_column


def expert_pairs(block, block_col, f32, ids, weights, pairs, M, A, P, experts, groups, columns, stretches):
    """pairs[1 + 3 P] = the list of the pairs whose expert the PE's column holds, in the order of tokens and choices.

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
    """out[pair, N] = x[token, K] @ w[expert][K, N], times the pair's weight where that is asked for.

    ``k_stride`` is the stride of ``w`` along K and ``out_stride`` that of ``out`` along pairs, in elements.
    """
    lane_count = min(acc.shape[2], columns - block_col)
    for i in range(P):
        at, row = pairs + 1 + 3 * i, out + i * out_stride
        equal_pairs = _same_pair(f32, block, pairs, at, lane_count)
        for lane in range(-1 if equal_pairs else 0, 0 if equal_pairs else lane_count):  # -1: all of them
            list_lane = max(lane, 0)
            if i < f32[block, pairs, list_lane]:
                token = _index(f32, block, at, list_lane, M)
                expert = _index(f32, block, at + 1, list_lane, local_experts)
                _clear(acc, block, lane, row, N)
                for k in range(K):
                    _multiply_add(acc, act, wgt, block, lane, row, x + token * K + k, w + k * k_stride + expert * N, N)
        if weighted == 1:
            _weigh(acc, f32, block, row, N, pairs, i, lane_count)


def expert_out(block, block_col, act, wgt, acc, f32, x, w, pairs, out, P, M, K, N, local_experts, weighted, columns):
    """out[token, N] = the sum over the token's pairs of x[pair, K] @ w[expert][K, N]; 0 for a token without any.

    Where that is asked for, x is first multiplied by the pairs' weights, in place.
    """
    lane_count = min(acc.shape[2], columns - block_col)
    clear_rows(acc, block, out, M * N)
    for i in range(P):
        at = pairs + 1 + 3 * i
        if weighted == 1:
            _weigh(act, f32, block, x + i * K, K, pairs, i, lane_count)
        equal_pairs = _same_pair(f32, block, pairs, at, lane_count)
        for lane in range(-1 if equal_pairs else 0, 0 if equal_pairs else lane_count):  # -1: all of them
            list_lane = max(lane, 0)
            if i < f32[block, pairs, list_lane]:
                token = _index(f32, block, at, list_lane, M)
                expert = _index(f32, block, at + 1, list_lane, local_experts)
                row = out + token * N
                for k in range(K):
                    w_row = w + (k * local_experts + expert) * N
                    _multiply_add(acc, act, wgt, block, lane, row, x + i * K + k, w_row, N)


def expert_in_quantised(
    block, block_col, act, wgt, acc, f32, raw,
    x, w, groups, scale, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, coding, G, rows,
):  # fmt: skip
    """out[pair, N] = x[token, K] @ (w x scale)[expert][K, N], times the pair's weight where that is asked for.

    ``k_stride`` is the stride of codes and scales along rows and ``out_stride`` that of ``out`` along pairs, in
    elements; ``groups`` has the group of each row, of G, and is read for int4 alone.
    """
    _codes_in(
        unpack_scaled, block, min(acc.shape[2], columns - block_col), act, wgt, acc, f32, raw,
        x, w, groups, w, scale, codes, pairs, codes, out,
        P, M, K, N, local_experts, k_stride, k_stride, out_stride, weighted, coding, G, N, rows,
    )  # fmt: skip


def expert_in_mxfp4(
    block, block_col, act, acc, f32, raw,
    x, w, groups, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, G, rows,
):  # fmt: skip
    """`expert_in_quantised` with e2m1 codes and a power of two, a byte, for each output and group of rows."""
    _codes_in(
        unpack_with_factors, block, min(acc.shape[2], columns - block_col), act, raw, acc, f32, raw,
        x, w, groups, w, scale, factors, pairs, codes, out,
        P, M, K, N, local_experts, k_stride, k_stride, out_stride, weighted, MXFP4, G, N, rows,
    )  # fmt: skip


def expert_in_fp8_blocks(
    block, block_col, act, acc, f32, raw,
    x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, G, B, rows,
):  # fmt: skip
    """`expert_in_quantised` with e4m3 codes and a float32 scale for each of B runs of outputs and group of rows.

    ``widths`` has the outputs of each run of an expert; ``scale_stride`` is the stride of scales along groups.
    """
    _codes_in(
        unpack_with_factors, block, min(acc.shape[2], columns - block_col), act, f32, acc, f32, raw,
        x, w, groups, widths, scale, factors, pairs, codes, out,
        P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, FP8_BLOCKS, G, B, rows,
    )  # fmt: skip


@helper_function
def _codes_in(
    unpack, block, lane_count, act, scales, acc, f32, raw, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, coding, G, B, rows,
):  # fmt: skip
    for i in range(P):
        at, row = pairs + 1 + 3 * i, out + i * out_stride
        equal_pairs = _same_pair(f32, block, pairs, at, lane_count)
        for lane in range(-1 if equal_pairs else 0, 0 if equal_pairs else lane_count):  # -1: all of them
            list_lane = max(lane, 0)
            if i < f32[block, pairs, list_lane]:
                token = _index(f32, block, at, list_lane, M)
                expert = _index(f32, block, at + 1, list_lane, local_experts)
                _clear(acc, block, lane, row, N)
                _multiply_codes(
                    unpack, acc, act, raw, scales, block, lane, row, x + token * K, w + expert * N, groups,
                    widths, scale + expert * B, factors, codes, K, N, k_stride, scale_stride, coding, G, B, rows,
                )  # fmt: skip
        if weighted == 1:
            _weigh(acc, f32, block, row, N, pairs, i, lane_count)


def expert_out_quantised(
    block, block_col, act, wgt, acc, f32, raw,
    x, w, groups, scale, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, coding, G, rows,
):  # fmt: skip
    """out[token, N] = the sum over the token's pairs of x[pair, K] @ (w x scale)[expert][K, N]; 0 without any.

    Where that is asked for, x is first multiplied by the pairs' weights, in place. ``groups`` has the group of each
    row, of G, and is read for int4 alone.
    """
    _codes_out(
        unpack_scaled, block, min(acc.shape[2], columns - block_col), act, wgt, acc, f32, raw,
        x, w, groups, w, scale, codes, pairs, codes, out,
        P, M, K, N, local_experts, weighted, coding, G, N, rows,
    )  # fmt: skip


def expert_out_mxfp4(
    block, block_col, act, acc, f32, raw,
    x, w, groups, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, rows,
):  # fmt: skip
    """`expert_out_quantised` with e2m1 codes and a power of two, a byte, for each output and group of rows."""
    _codes_out(
        unpack_with_factors, block, min(acc.shape[2], columns - block_col), act, raw, acc, f32, raw,
        x, w, groups, w, scale, factors, pairs, codes, out,
        P, M, K, N, local_experts, weighted, MXFP4, G, N, rows,
    )  # fmt: skip


def expert_out_fp8_blocks(
    block, block_col, act, acc, f32, raw,
    x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, B, rows,
):  # fmt: skip
    """`expert_out_quantised` with e4m3 codes and a float32 scale for each of B runs of outputs and group of rows."""
    _codes_out(
        unpack_with_factors, block, min(acc.shape[2], columns - block_col), act, f32, acc, f32, raw,
        x, w, groups, widths, scale, factors, pairs, codes, out,
        P, M, K, N, local_experts, weighted, FP8_BLOCKS, G, B, rows,
    )  # fmt: skip


@helper_function
def _codes_out(
    unpack, block, lane_count, act, scales, acc, f32, raw, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, coding, G, B, rows,
):  # fmt: skip
    stride, scale_stride = local_experts * N, local_experts * B
    clear_rows(acc, block, out, M * N)
    for i in range(P):
        at = pairs + 1 + 3 * i
        if weighted == 1:
            _weigh(act, f32, block, x + i * K, K, pairs, i, lane_count)
        equal_pairs = _same_pair(f32, block, pairs, at, lane_count)
        for lane in range(-1 if equal_pairs else 0, 0 if equal_pairs else lane_count):  # -1: all of them
            list_lane = max(lane, 0)
            if i < f32[block, pairs, list_lane]:
                token = _index(f32, block, at, list_lane, M)
                expert = _index(f32, block, at + 1, list_lane, local_experts)
                _multiply_codes(
                    unpack, acc, act, raw, scales, block, lane, out + token * N, x + i * K, w + expert * N, groups,
                    widths, scale + expert * B, factors, codes, K, N, stride, scale_stride, coding, G, B, rows,
                )  # fmt: skip


def expert_bias(
    block, block_row, block_col, wgt, acc, f32,
    x, bias, pairs, P, M, N, parts, local_experts, stride, by_token, weighted, share, columns, groups, stretches,
):  # fmt: skip
    """x[pair, N] += bias[expert, N] where the PE holds that; by token instead x[token, N], times the weight if asked.

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
                before = place * share - expert * N  # of the expert's elements, those that other PEs hold
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
def _same_pair(f32, block, pairs, at, lane_count):
    """Whether the lists of all lanes in use are as long and have the same token and expert at ``at``."""
    is_equal = True
    for lane in range(1, lane_count):
        count, token = f32[block, pairs, lane] == f32[block, pairs, 0], f32[block, at, lane] == f32[block, at, 0]
        is_equal = is_equal and count and token and f32[block, at + 1, lane] == f32[block, at + 1, 0]
    return is_equal


@helper_function
def _clear(acc, block, lane, row, N):
    """acc[row + n] = 0, n < N, in one lane or, where ``lane`` is negative, in all."""
    for e in range(row, row + N):
        for cleared_lane in range(max(lane, 0), lane + 1 if lane >= 0 else acc.shape[2]):
            acc[block, e, cleared_lane] = narrow(np.float32(0.0), acc[block, e, cleared_lane])


@helper_function
def _multiply_add(acc, act, right, block, lane, row, value, weights, N):
    """acc[row + n] += act[value] * right[weights + n], n < N, in one lane or, where ``lane`` is negative, in all."""
    if lane < 0:
        multiply_add_rows(acc, act, right, block, row, value, weights, N, 1)
    else:
        for n in range(N):
            old = acc[block, row + n, lane]
            product = widen(act[block, value, lane]) * widen(right[block, weights + n, lane])
            acc[block, row + n, lane] = narrow(widen(old) + product, old)


@helper_function
def _multiply_codes(
    unpack, acc, act, raw, scales, block, lane, row, value, w, groups, widths, scale, factors, codes,
    K, N, stride, scale_stride, coding, G, B, rows,
):  # fmt: skip
    """acc[row + n] += act[value + k] * (w x scales)[k, n], k < K, n < N; codes are unpacked ``rows`` rows at once."""
    for k in range(K):
        if k % rows == 0:
            for row_k in range(k, min(k + rows, K)):
                e = codes + (row_k - k) * N
                unpack(
                    act, raw, scales, block, lane, e, w, groups, widths, scale, factors,
                    N, row_k, stride, scale_stride, coding, G, B,
                )  # fmt: skip
        _multiply_add(acc, act, act, block, lane, row, value + k, codes + k % rows * N, N)


@helper_function
def _weigh(view, f32, block, row, n, pairs, i, lane_count):
    """view[row + e] *= the weight of pair i, e < n, in the lanes that have so many pairs."""
    for e in range(row, row + n):
        for lane in range(lane_count):
            if i < f32[block, pairs, lane]:
                old = view[block, e, lane]
                view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)
