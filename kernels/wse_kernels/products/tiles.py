"""Descriptions of the operands of products: tiles of weights, and rows of sums and activations.

Product functions take these named tuples. Addresses and strides count rows of a view. A row has one
element for each lane (PE of a block).
"""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """Location and sizes of a weight tile [K, N], the right operand of a product on one PE.

    Attributes:
        w: Address of the first element.
        K, N: Numbers of input features and output features.
        k_stride, n_stride: Strides between inputs and between outputs, in elements.
    """

    w: int
    K: int
    N: int
    k_stride: int
    n_stride: int


class CodeTile(NamedTuple):
    """Location and sizes of a tile [K, N] of quantised weights and its scales on one PE.

    In formats with groups, consecutive inputs form groups that share scales.

    Attributes:
        w: Address of the first weights.
        groups: Address of K bytes: the index of the group of each input. Used only for formats with
            groups.
        widths: Address of B bytes: the number of outputs in each block of outputs that share a
            scale. Used only for FP8_BLOCKS.
        scale: Address of the first scale.
        K, N: Numbers of input features and output features.
        k_stride: Row stride of the weights.
        scale_stride: Stride between the scales of neighbouring groups.
        G: Number of groups of inputs.
        B: Number of scales per group: one per block of outputs for FP8_BLOCKS, else one per output.
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
    """Addresses and token strides of the sums and activations of M tokens.

    Attributes:
        M: Number of tokens.
        out: Address of the sums.
        out_stride: Stride between the sums of neighbouring tokens.
        x: Address of the activations.
        x_stride: Stride between the activations of neighbouring tokens.
    """

    M: int
    out: int
    out_stride: int
    x: int
    x_stride: int
