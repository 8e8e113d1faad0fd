"""Groups of operands of products with weights.

A group is a named tuple that replaces single operands (`wse_kernels.operands.group`).
"""

from __future__ import annotations

from typing import NamedTuple


class ProductShape(NamedTuple):
    """Sizes of the matrix product [M, N] = [M, K] @ [K, N] that a PE computes.

    Attributes:
        M: Number of tokens.
        K, N: Numbers of input features and output features.
    """

    M: int
    K: int
    N: int


class ProductStrides(NamedTuple):
    """Strides of a matrix product's operands, in elements.

    Attributes:
        k_stride: Stride between input features in the right operand.
        n_stride: Stride between output features in the right operand.
        out_stride: Stride between tokens in the sums.
    """

    k_stride: int
    n_stride: int
    out_stride: int


class CodedTensors(NamedTuple):
    """Addresses of the operands of a product with int8 or FP8 weights.

    Attributes:
        x: Activations [M, K].
        w: Quantised weights [K, N].
        scale: Scales [N] in the weight type, one per output.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    scale: int
    codes: int
    out: int


class Int4Tensors(NamedTuple):
    """Addresses of the operands of a product with int4 weights.

    Attributes:
        x: Activations [M, K].
        w: Quantised weights [K, N]. Each byte contains a weight of an even row in its low half and
            the weight of the next row in its high half.
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
        scale: Scales [G, N] in the weight type.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    groups: int
    scale: int
    codes: int
    out: int


class Mxfp4Tensors(NamedTuple):
    """Addresses of the operands of a product with weights in the MXFP4 format.

    Attributes:
        x: Activations [M, K].
        w: Weights [K, N] as e2m1 codes. Each byte contains the code of an even row in its low half
            and the code of the next row in its high half.
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
        scale: e8m0 scales [G, N], powers of two of one byte each.
        factors: Scratch buffer [N] that a real PE needs. The emulator does not use it.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    groups: int
    scale: int
    factors: int
    codes: int
    out: int


class BlockScaledTensors(NamedTuple):
    """Addresses of the operands of a product with FP8 weights that have block scales.

    Each scale applies to a group of rows and a block of neighbouring outputs.

    Attributes:
        x: Activations [M, K].
        w: Weights [K, N] as e4m3 codes.
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
        widths: Number of outputs in each of the B blocks, one byte each.
        scale: float32 scales [G, B].
        factors: Scratch buffer [N] that a real PE needs. The emulator does not use it.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    groups: int
    widths: int
    scale: int
    factors: int
    codes: int
    out: int
