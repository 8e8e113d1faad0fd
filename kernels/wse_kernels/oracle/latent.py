"""Oracles that redistribute vectors of latent attention from rows to columns and back."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.attention import LatentShape, RotatedTensors


def place_heads(pe, x, heads, out, M, H, Hl, n):
    """Copy this mesh row's attention heads into a tensor of all heads, at their positions.

    Heads of other rows are set to zero, so that a later sum over the rows gives every PE all heads.
    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the row's heads [M, Hl, n] in the accumulator type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of all heads [M, H, n] in the accumulator type.
        M, H, Hl, n: Numbers of tokens, total heads, heads of the row, and features per head.
    """
    all_heads = np.zeros((M, H + 1, n), np.float32)
    all_heads[:, pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("acc", x, M, Hl, n)
    pe.write("acc", out, all_heads[:, 1:])


def place_rotated(pe, at: RotatedTensors, M, H, Hl, K, n, stride):
    """Copy the rotated features that belong to both the mesh row and the mesh column of this PE.

    A mesh row computes some features of some heads, and a mesh column needs other features of all
    heads. All other features of the column become zero, so that a later sum over the rows completes
    them. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the row's features x[M, Hl, K], of the lists of the row's heads and of the
            column's features, and of the column's features out[M, H, n].
        M, H, Hl: Numbers of tokens, total heads, and heads of the row.
        K, n: Numbers of features of the row and of the column.
        stride: Token stride of ``x``, in elements.
    """
    x, heads, first, feature_ordinals, out = at
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    heads_of_row = np.stack([pe.read("acc", x + m * stride, Hl, K) for m in range(M)])
    all_heads = np.zeros((M, H + 1, n), np.float32)
    for i, head in enumerate(pe.read("f32", heads, Hl).astype(np.int64)):
        for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
            all_heads[:, head, j] = heads_of_row[:, i, k]
    pe.write("acc", out, all_heads[:, 1:])


def pick_rotated(pe, x, first, feature_ordinals, out, Hl, K, n):
    """Copy the rotated features that this mesh row stores and this mesh column needs.

    The features x[Hl, K] of the row are copied to out[Hl, n]. Features that the row does not store
    become zero. This NumPy reference for one PE is used to test the compiled kernel of the same
    name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the features of the row's heads [Hl, K] in the accumulator type.
        first: Address of a float32 number: index + 1 of the first of the row's K features, or 0 if
            the row has none.
        feature_ordinals: Address of the list [n] of the column's features, in float32: index + 1 of
            each feature, or 0 for padding.
        out: Address of the column's features [Hl, n] in the accumulator type.
        Hl, K, n: Numbers of heads of the row, features of the row, and features of the column.
    """
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    row_features, column_features = pe.read("acc", x, Hl, K), np.zeros((Hl, n), np.float32)
    for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
        column_features[:, j] = row_features[:, k]
    pe.write("acc", out, column_features)


def set_heads(pe, x, heads, out, H, Hl, n):
    """Write the attention heads that this mesh row computes into the tensor of all heads.

    out[h, n] = x[i, n], where h is the index of the row's head i among all heads. The other heads
    keep their values. This NumPy reference for one PE is used to test the compiled kernel of the
    same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the row's heads [Hl, n] in the activation type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of all heads [H, n] in the accumulator type.
        H, Hl, n: Numbers of total heads, heads of the row, and features per head.
    """
    padded = np.concatenate([np.zeros((1, n), np.float32), pe.read("acc", out, H, n)])
    padded[pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("act", x, Hl, n)
    pe.write("acc", out, padded[1:])


def pick_heads(pe, x, heads, out, M, H, Hl, n):
    """Select the attention heads that this mesh row processes, out of all heads.

    The heads are copied from x[M, H, n] to out[Hl, M, n]. Padding heads become zero. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of all heads [M, H, n] in the activation type.
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of the row's heads [Hl, M, n] in the activation type.
        M, H, Hl, n: Numbers of tokens, total heads, heads of the row, and features per head.
    """
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), pe.read("act", x, M, H, n)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def finish_heads(pe, x, sums, heads, out, shape: LatentShape):
    """Divide the attention outputs of the heads that this mesh row processes by their softmax sums.

    out[i, M, n] = x[M, h, n] / sums[M, h], where h is the index of the row's head i among all
    heads. Results are zero for padding and where the sum is not positive. This NumPy reference for
    one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the outputs [M, H, n] in the accumulator type.
        sums: Address of the float32 softmax sums [M, H].
        heads: Address of the list [Hl] of the row's heads, in float32. An element is 1 + the index
            of a head among all H heads, or 0 for padding.
        out: Address of the activations [Hl, M, n].
        shape: M tokens, H total heads, Hl heads of the row, n features.
    """
    M, H, Hl, n = shape
    total = pe.read("f32", sums, M, H, 1)
    quotient = np.where(total > 0, pe.read("acc", x, M, H, n) / np.where(total > 0, total, np.float32(1.0)), 0)
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), quotient.astype(np.float32)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def redistribute_block(pe, x, out, M, K, N, first_col, to_rows):
    """Keep the elements of a vector that this PE needs when the vector is redistributed.

    The vector is divided into blocks along one mesh axis and will be divided along the other. Each
    PE copies the elements that are in both its old and its new block, and sets the other elements
    of the new block to zero. This NumPy reference for one PE is used to test the compiled kernel of
    the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the PE's old block of the vector [M, K] in the activation type.
        out: Address of its new block [M, N] in the accumulator type.
        M, K, N: Numbers of tokens, elements of the old block, and elements of the new block.
        first_col: First mesh column that stores a block.
        to_rows: 1 if old blocks are divided over mesh columns and new ones over rows, 0 for the
            opposite.
    """
    col = pe.col - first_col
    if col < 0:
        pe.write("acc", out, np.zeros((M, N), np.float32))
        return
    source, target = (col, pe.row) if to_rows else (pe.row, col)
    vector = np.zeros((M, (source + 1) * K + (target + 1) * N), np.float32)
    vector[:, source * K : (source + 1) * K] = pe.read("act", x, M, K)
    pe.write("acc", out, vector[:, target * N : (target + 1) * N])
