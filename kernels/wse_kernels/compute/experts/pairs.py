"""Kernels that list the (token, selected expert) pairs of a column, and add their biases."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.compute._slices import group_of_column
from wse_kernels.compute.experts._pair_products import limited_index
from wse_kernels.operands.experts import ColumnGroups, ExpertBiasShape, ExpertBiasTensors
from wse_kernels.operands.group import Place


def expert_pairs(place: Place, f32, ids, weights, pairs, M, A, P, experts, division: ColumnGroups):
    """List the (token, selected expert) pairs whose expert is stored in this column of PEs.

    Pairs are sorted by token and, for each token, listed in the order in which its experts were
    selected. The columns form segments of equal width, and each segment is divided into groups.
    Experts are divided evenly among the segments, and then among the groups of a segment.

    Args:
        place: Position of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the pair count, then (token, index of the expert in
            the column, weight) for each pair.
        M, A, P: Numbers of tokens and of experts per token; maximum number of pairs in the list.
        experts: Number of experts in the layer.
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


def expert_bias(
    place: Place,
    wgt,
    acc,
    f32,
    at: ExpertBiasTensors,
    shape: ExpertBiasShape,
    by_token,
    weighted,
    biases_per_pe,
    division: ColumnGroups,
):
    """Add the biases of selected experts that this PE stores to the sums of pairs or tokens.

    A pair is a token and one of its selected experts. For each pair in the list, x[pair, N] +=
    bias[expert, N], or x[token, N] += bias[expert, N] if ``by_token``. This is done for each part
    of the outputs (gate and up, for example).

    A column's biases of a part, [local_experts, N], are divided into blocks of ``biases_per_pe``
    elements.
    The blocks are distributed in order over the rows of the column or, if ``by_token``, over the
    columns of its group.

    Args:
        place: Position of the block (group of neighbouring PEs).
        wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the sums, biases and pairs.
        shape: P pairs, M tokens, N outputs per part, the number of parts, and the number of experts
            in the column.
        by_token: 1 to add to the sums of tokens, 0 to add to the sums of pairs.
        weighted: 1 to multiply biases by routing weights, else 0.
        biases_per_pe: Number of biases of a part on one PE.
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
                token = limited_index(f32, block, pair, lane, shape.M)
                expert = limited_index(f32, block, pair + 1, lane, shape.local_experts)
                row = at.x + (token if by_token == 1 else i) * shape.stride
                weight = f32[block, pair + 2, lane] if weighted == 1 else np.float32(1.0)
                # Negative if the PE's block begins before this expert.
                first = stored_block * biases_per_pe - expert * N
                for part in range(shape.parts):
                    sums, biases = row + part * N, at.bias + part * biases_per_pe - first
                    for n in range(max(first, 0), min(first + biases_per_pe, N)):
                        old = acc[block, sums + n, lane]
                        addend = widen(wgt[block, biases + n, lane]) * weight
                        acc[block, sums + n, lane] = narrow(widen(old) + addend, old)
