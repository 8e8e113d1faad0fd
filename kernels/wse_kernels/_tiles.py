"""Descriptions of the operands of products: tiles of weights, and rows of sums and activations.

Product functions take these named tuples. Addresses and strides count rows of lanes of a view.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CodeTile", "ProductRows", "Tile"]


class Tile(NamedTuple):
    """Tile of elements: the right operand [K, N] of a product.

    Attributes:
        w: Address of the first element.
        K, N: Inputs; outputs.
        k_stride, n_stride: Strides along inputs and outputs.
    """

    w: int
    K: int
    N: int
    k_stride: int
    n_stride: int


class CodeTile(NamedTuple):
    """Tile of quantised codes [K, N] with scales.

    Attributes:
        w: Address of the first codes.
        groups: Address of the scale group of each input, one byte each. Read only in codings with
            groups.
        widths: Address of the number of outputs of each of the B blocks, one byte each. Read only
            in the coding FP8_BLOCKS.
        scale: Address of the first scale.
        K, N: Inputs; outputs.
        k_stride, scale_stride: Strides of codes along inputs, and of scales along groups.
        G: Groups of inputs that share scales.
        B: Scales of a group: one per block of outputs in the coding FP8_BLOCKS, else one per
            output.
    """

    w: int
    groups: int
    widths: int
    scale: int
    K: int
    N: int
    k_stride: int
    scale_stride: int
    G: int
    B: int


class ProductRows(NamedTuple):
    """Addresses of the sums and activations of M tokens, and distances between tokens.

    Attributes:
        M: Tokens.
        out, out_stride: Address of the sums; distance from one token to the next.
        x, x_stride: Address of the activations; distance from one token to the next.
    """

    M: int
    out: int
    out_stride: int
    x: int
    x_stride: int
