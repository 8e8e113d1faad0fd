"""Groups of operands of products with weights.

`wse_kernels._operands` says how a kernel takes a group.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BlockScaledTensors", "CodedTensors", "Int4Tensors", "Mxfp4Tensors", "ProductShape", "ProductStrides"]


class ProductShape(NamedTuple):
    """Sizes of a product [M, N] = [M, K] @ [K, N].

    Attributes:
        M: Tokens.
        K, N: Inputs; outputs.
    """

    M: int
    K: int
    N: int


class ProductStrides(NamedTuple):
    """Strides of a product, in elements.

    Attributes:
        k_stride, n_stride: Strides of the right operand along inputs and along outputs.
        out_stride: Stride of the sums along tokens.
    """

    k_stride: int
    n_stride: int
    out_stride: int


class CodedTensors(NamedTuple):
    """Addresses of the operands of a product with int8 or FP8 codes.

    Attributes:
        x: Activations [M, K].
        w: Codes [K, N].
        scale: Scales [N] in the weight type, one per output.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    scale: int
    codes: int
    out: int


class Int4Tensors(NamedTuple):
    """Addresses of the operands of a product with int4 codes.

    Attributes:
        x: Activations [M, K].
        w: Codes [K, N]. A byte has the code of an even row in its low half and that of the next row
            in its high half.
        groups: Scale group of each of the K rows, one byte each.
        scale: Scales [G, N] in the weight type.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
        out: Sums [M, N] in the accumulator type.
    """

    x: int
    w: int
    groups: int
    scale: int
    codes: int
    out: int


class Mxfp4Tensors(NamedTuple):
    """Addresses of the operands of a product with MXFP4 codes.

    Attributes:
        x: Activations [M, K].
        w: e2m1 codes [K, N]. A byte has the code of an even row in its low half and that of the
            next row in its high half.
        groups: Scale group of each of the K rows, one byte each.
        scale: e8m0 scales [G, N], powers of two of one byte each.
        factors: Scratch buffer [N] of the PE. Kernels of the emulator do not use it.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
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
    """Addresses of the operands of a product with FP8 codes and block scales.

    Attributes:
        x: Activations [M, K].
        w: e4m3 codes [K, N].
        groups: Scale group of each of the K rows, one byte each.
        widths: Number of outputs in each of the B blocks, one byte each.
        scale: float32 scales [G, B].
        factors: Scratch buffer [N] of the PE. Kernels of the emulator do not use it.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
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
