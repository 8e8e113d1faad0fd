"""Groups of operands of the selection of experts, and of products with them.

A group is a named tuple that replaces single operands (`wse_kernels.operands.group`).
"""

from __future__ import annotations

from typing import NamedTuple


class ExpertTensors(NamedTuple):
    """Addresses of the operands of a product of activations and the weights of selected experts.

    Attributes:
        x: Activations.
        w: Weights [K, local_experts, N] of the experts that a column of PEs stores.
        pairs: List of the (token, expert, routing weight) triples routed to the column's experts.
        out: Products or sums in the accumulator type.
    """

    x: int
    w: int
    pairs: int
    out: int


class QuantisedExpertTensors(NamedTuple):
    """Addresses of the operands of a product with expert weights in int8, FP8 or int4.

    Attributes:
        x: Activations.
        w: Quantised weights [K, local_experts, N].
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
            Used for int4 only.
        scale: Scales [G, local_experts, N] in the weight type.
        pairs: List of the (token, expert, routing weight) triples routed to the column's experts.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Products or sums in the accumulator type.
    """

    x: int
    w: int
    groups: int
    scale: int
    pairs: int
    codes: int
    out: int


class Mxfp4ExpertTensors(NamedTuple):
    """Addresses of the operands of a product with expert weights in the MXFP4 format.

    Attributes:
        x: Activations.
        w: Weights [K, local_experts, N] as e2m1 codes.
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
        scale: e8m0 scales [G, local_experts, N], powers of two of one byte each.
        factors: Scratch buffer [N] that a real PE needs. The emulator does not use it.
        pairs: List of the (token, expert, routing weight) triples routed to the column's experts.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Products or sums in the accumulator type.
    """

    x: int
    w: int
    groups: int
    scale: int
    factors: int
    pairs: int
    codes: int
    out: int


class BlockScaledExpertTensors(NamedTuple):
    """Addresses of the operands of a product with FP8 expert weights that have block scales.

    Each scale applies to a group of rows and a block of an expert's neighbouring outputs.

    Attributes:
        x: Activations.
        w: Weights [K, local_experts, N] as e4m3 codes.
        groups: One byte per row of ``w``: index of the group of rows with which it shares scales.
        widths: Number of outputs in each of the B blocks of an expert, one byte each.
        scale: float32 scales [G, local_experts, B].
        factors: Scratch buffer [N] that a real PE needs. The emulator does not use it.
        pairs: List of the (token, expert, routing weight) triples routed to the column's experts.
        codes: Scratch buffer [rows, N] that a real PE needs. The emulator does not use it.
        out: Products or sums in the accumulator type.
    """

    x: int
    w: int
    groups: int
    widths: int
    scale: int
    factors: int
    pairs: int
    codes: int
    out: int


class ExpertShape(NamedTuple):
    """Sizes of a product with the experts that a column of PEs stores.

    Attributes:
        P: Maximum number of (token, expert) pairs routed to the column's experts.
        M: Number of tokens.
        K, N: Numbers of input and output features of an expert on the PE.
        local_experts: Number of experts that the column stores.
    """

    P: int
    M: int
    K: int
    N: int
    local_experts: int


class InputProduct(NamedTuple):
    """Settings of the first matrix product of an expert layer.

    The result of the product has one row of outputs for each (token, selected expert) pair.

    Attributes:
        k_stride: Row stride of the weights and of the scales, in elements.
        out_stride: Pair stride of the outputs, in elements.
        weighted: 1 to multiply each product by the pair's routing weight, else 0.
        columns: Number of mesh columns. The last block of PEs may have more lanes than remaining
            columns; such lanes are skipped.
    """

    k_stride: int
    out_stride: int
    weighted: int
    columns: int


class BlockScaledInputProduct(NamedTuple):
    """Settings of the first matrix product of an expert layer whose FP8 weights have block scales.

    Unlike in `InputProduct`, weight rows and scale rows have different strides.

    Attributes:
        k_stride: Row stride of the weights, in elements.
        scale_stride: Row stride of the scales, in elements.
        out_stride: Stride between (token, expert) pairs in the outputs, in elements.
        weighted: 1 to multiply each product by the pair's routing weight, else 0.
        columns: Number of mesh columns. The last block of PEs may have more lanes than remaining
            columns; such lanes are skipped.
    """

    k_stride: int
    scale_stride: int
    out_stride: int
    weighted: int
    columns: int


class OutputProduct(NamedTuple):
    """Settings of the second matrix product of an expert layer.

    The result of the product has one row of outputs for each token.

    Attributes:
        weighted: 1 to multiply the activations of each (token, expert) pair by its routing weight,
            else 0.
        columns: Number of mesh columns. The last block of PEs may have more lanes than remaining
            columns; such lanes are skipped.
    """

    weighted: int
    columns: int


class QuantisedScales(NamedTuple):
    """Format of quantised weights, and the sizes that a kernel needs to unpack them.

    Attributes:
        coding: Number that identifies the weight format: int8, FP8 or int4.
        G: Number of scale groups. The rows of a group share one scale per column.
        rows: Number of rows that the scratch buffer for unpacked weights holds.
    """

    coding: int
    G: int
    rows: int


class BlockScales(NamedTuple):
    """Sizes of the scales of FP8 weights, where a block of neighbouring weights shares a scale.

    Attributes:
        G: Number of groups of rows that share scales.
        B: Number of blocks of neighbouring outputs of an expert that share scales.
        rows: Number of rows in the scratch buffer for unpacked weights.
    """

    G: int
    B: int
    rows: int


class ColumnGroups(NamedTuple):
    """Division of the mesh columns into groups of neighbours, each of which stores some experts.

    The columns form segments of equal width. Each segment has the same number of groups. Group
    sizes differ by at most one, and the larger groups come first.

    Attributes:
        columns: Number of mesh columns.
        groups: Number of groups per segment.
        segments: Number of segments.
    """

    columns: int
    groups: int
    segments: int


class ExpertBiasTensors(NamedTuple):
    """Addresses of the operands of `expert_bias`, which adds the biases of experts to sums.

    Attributes:
        x: Sums in the accumulator type. The row of a pair or token has parts * N elements.
        bias: Biases [parts, biases_per_pe] that the PE stores. The parts are, for example, gate
            and up.
        pairs: List of the (token, expert, routing weight) triples routed to the column's experts.
    """

    x: int
    bias: int
    pairs: int


class ExpertBiasShape(NamedTuple):
    """Sizes of the sums to which `expert_bias` adds the biases of experts.

    Attributes:
        P: Maximum number of (token, expert) pairs routed to the column's experts.
        M: Number of tokens.
        N: Number of outputs of an expert in each part.
        parts: Number of parts into which an expert's outputs are divided, for example 2 for gate
            and up.
        local_experts: Number of experts that the column stores.
        stride: Stride between pairs or tokens in the sums, in elements.
    """

    P: int
    M: int
    N: int
    parts: int
    local_experts: int
    stride: int


class ChoiceTensors(NamedTuple):
    """Addresses of the operands of `router_choose`, which selects the experts of each token.

    All operands are float32.

    Attributes:
        choice: Values [M, E] used to select experts.
        scores: Scores [M, E], from which the routing weights are taken.
        ids: Ids of the selected experts [M, A].
        weights: Routing weights of the selected experts [M, A].
        maxima: Scratch vector with the position of the largest value of each block of experts.
    """

    choice: int
    scores: int
    ids: int
    weights: int
    maxima: int
