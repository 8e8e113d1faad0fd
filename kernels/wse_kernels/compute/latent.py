"""Compute kernels that redistribute vectors of latent attention from rows to columns and back.

Attention over a latent KV cache needs them. Each PE copies the elements that belong to both its row
and its column, and sets the others to zero. An all-reduce then gives every PE the part of the
vector along the new axis.

Two kinds of tables say which heads a row has, and which rotated features a row and a column have.
Their entries are ordinals: 1 for the first, 0 for padding. The tables of a row are the same in all
lanes.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.operands.attention import LatentShape, RotatedTensors
from wse_kernels.operands.group import Place


def place_heads(block, acc, f32, x, heads, out, M, H, Hl, n):
    """Copy this mesh row's attention heads into a tensor of all heads, at their positions.

    In latent attention, heads are partitioned across mesh rows. Heads of other rows are set to
    zero, so that a later sum over the rows gives every PE all heads.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the row's heads [M, Hl, n] in the accumulator type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of all heads [M, H, n] in the accumulator type.
        M, H, Hl, n: Numbers of tokens, total heads, heads of the row, and features per head.
    """
    lanes = acc.shape[2]
    clear_rows(acc, block, out, M * H * n)
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h < 0:
            continue
        for m in range(M):
            for e in range(n):
                for lane in range(lanes):
                    acc[block, out + (m * H + h) * n + e, lane] = acc[block, x + (m * Hl + i) * n + e, lane]


def place_rotated(block, acc, f32, at: RotatedTensors, M, H, Hl, K, n, stride):
    """Copy the rotated features that belong to both the mesh row and the mesh column of this PE.

    In latent attention, a row computes some features of some heads, and a column needs other
    features of all heads. A later sum over the rows completes the column's features. out[M, h, j] =
    x[M, i, k] for each head i of the row, where h is its index among all heads, and for each
    feature j of the column that is feature k of the row. All other elements of ``out`` become zero.
    Ordinals count from 1, and 0 means padding.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the row's features x[M, Hl, K], of the tables of ordinals, and of the
            column's features out[M, H, n].
        M, H, Hl: Numbers of tokens, total heads, and heads of the row.
        K, n: Numbers of features of the row and of the column.
        stride: Token stride of ``x``, in elements.
    """
    x, heads, first, feature_ordinals, out = at
    lanes = acc.shape[2]
    clear_rows(acc, block, out, M * H * n)
    start = np.int64(f32[block, first, 0])
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h < 0 or start == 0:
            continue
        for j in range(n):
            for lane in range(lanes):
                k = np.int64(f32[block, feature_ordinals + j, lane]) - start
                if k >= 0 and k < K:
                    for m in range(M):
                        source = acc[block, x + m * stride + i * K + k, lane]
                        acc[block, out + (m * H + h) * n + j, lane] = source


def pick_rotated(block, acc, f32, x, first, feature_ordinals, out, Hl, K, n):
    """Copy the rotated features that this mesh row stores and this mesh column needs.

    The features x[Hl, K] of the row are copied to out[Hl, n]. Features that the row does not store
    become zero.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the features of the row's heads [Hl, K] in the accumulator type.
        first: Address of a float32 number: index + 1 of the first of the row's K features, or 0 if
            the row has none.
        feature_ordinals: Address of the list [n] of the column's features, in float32: index + 1 of
            each feature, or 0 for padding.
        out: Address of the column's features [Hl, n] in the accumulator type.
        Hl, K, n: Numbers of heads of the row, features of the row, and features of the column.
    """
    lanes = acc.shape[2]
    clear_rows(acc, block, out, Hl * n)
    start = np.int64(f32[block, first, 0])
    for j in range(n):
        for lane in range(lanes):
            k = np.int64(f32[block, feature_ordinals + j, lane]) - start
            if start > 0 and k >= 0 and k < K:
                for i in range(Hl):
                    acc[block, out + i * n + j, lane] = acc[block, x + i * K + k, lane]


def set_heads(block, act, acc, f32, x, heads, out, H, Hl, n):
    """Write the attention heads that this mesh row computes into the tensor of all heads.

    out[h, n] = x[i, n], where h is the index of the row's head i among all heads. The other heads
    in ``out`` keep their values.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the row's heads [Hl, n] in the activation type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of all heads [H, n] in the accumulator type.
        H, Hl, n: Numbers of total heads, heads of the row, and features per head.
    """
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h >= 0 and h < H:
            for e in range(n):
                for lane in range(lanes):
                    element = acc[block, out + h * n + e, lane]
                    acc[block, out + h * n + e, lane] = narrow(widen(act[block, x + i * n + e, lane]), element)


def pick_heads(block, act, f32, x, heads, out, M, H, Hl, n):
    """Select the attention heads that this mesh row processes, out of all heads.

    The heads are copied from x[M, H, n] to out[Hl, M, n]. Padding heads become zero.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of all heads [M, H, n] in the activation type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of the row's heads [Hl, M, n] in the activation type.
        M, H, Hl, n: Numbers of tokens, total heads, heads of the row, and features per head.
    """
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        for m in range(M):
            source, target = x + (m * H + h) * n, out + (i * M + m) * n
            for e in range(n):
                for lane in range(lanes):
                    zero = narrow(np.float32(0.0), act[block, target + e, lane])
                    act[block, target + e, lane] = act[block, source + e, lane] if h >= 0 else zero


def finish_heads(block, act, acc, f32, x, sums, heads, out, shape: LatentShape):
    """Divide the attention outputs of the heads that this mesh row processes by their softmax sums.

    out[i, M, n] = x[M, h, n] / sums[M, h], where h is the index of the row's head i among all
    heads. Results are zero for padding and wherever the sum is not positive.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the outputs [M, H, n] in the accumulator type.
        sums: Address of the float32 softmax sums [M, H].
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of the activations [Hl, M, n].
        shape: M tokens, H total heads, Hl heads of the row, n features.
    """
    M, H, Hl, n = shape
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        for m in range(M):
            mh, target = m * H + (h if h > 0 else 0), out + (i * M + m) * n
            for e in range(n):
                for lane in range(lanes):
                    total = f32[block, sums + mh, lane] if h >= 0 else np.float32(0.0)
                    value = widen(acc[block, x + mh * n + e, lane]) / total if total > 0.0 else np.float32(0.0)
                    act[block, target + e, lane] = narrow(value, act[block, target + e, lane])


def redistribute_block(place: Place, act, acc, x, out, M, K, N, first_col, to_rows):
    """Keep the elements of a vector that this PE needs when the vector is redistributed.

    The vector is divided into blocks along one mesh axis and will be divided along the other. Each
    PE copies the elements that are in both its old and its new block, and sets the other elements
    of the new block to zero. A sum along the old axis then completes the new blocks.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the PE's old block of the vector [M, K] in the activation type.
        out: Address of its new block [M, N] in the accumulator type.
        M, K, N: Numbers of tokens, elements of the old block, and elements of the new block.
        first_col: First mesh column that stores a block.
        to_rows: 1 if old blocks are divided over mesh columns and new ones over rows, 0 for the
            opposite.
    """
    block, row, first_lane_col = place
    lanes = act.shape[2]
    for lane in range(lanes):
        col = first_lane_col + lane - first_col
        first = row * N - col * K if to_rows == 1 else col * N - row * K
        for m in range(M):
            for e in range(N):
                value = np.float32(0.0)
                if first + e >= 0 and first + e < K:
                    value = widen(act[block, x + m * K + first + e, lane])
                acc[block, out + m * N + e, lane] = narrow(value, acc[block, out + m * N + e, lane])
