"""Groups of operands of the selection of experts, and of products with them.

`wse_kernels._operands` says how a kernel takes a group.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BlockScaledExpertTensors",
    "BlockScaledInputProduct",
    "BlockScales",
    "ChoiceTensors",
    "ColumnGroups",
    "ExpertBiasShape",
    "ExpertBiasTensors",
    "ExpertShape",
    "ExpertTensors",
    "InputProduct",
    "Mxfp4ExpertTensors",
    "OutputProduct",
    "QuantisedExpertTensors",
    "QuantisedScales",
]


class ExpertTensors(NamedTuple):
    """Addresses of the operands of a product with experts.

    Attributes:
        x: Activations.
        w: Weights [K, local_experts, N].
        pairs: List of the pairs (token, expert, weight) of the column.
        out: Products or sums in the accumulator type.
    """

    x: int
    w: int
    pairs: int
    out: int


class QuantisedExpertTensors(NamedTuple):
    """Addresses of the operands of a product with experts in int8, FP8 or int4 codes.

    Attributes:
        x: Activations.
        w: Codes of the weights [K, local_experts, N].
        groups: Scale group of each of the K rows, one byte each. Read for int4 only.
        scale: Scales [G, local_experts, N] in the weight type.
        pairs: List of the pairs (token, expert, weight) of the column.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
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
    """Addresses of the operands of a product with experts in MXFP4 codes.

    Attributes:
        x: Activations.
        w: e2m1 codes of the weights [K, local_experts, N].
        groups: Scale group of each of the K rows, one byte each.
        scale: e8m0 scales [G, local_experts, N], powers of two of one byte each.
        factors: Scratch buffer [N] of the PE. Kernels of the emulator do not use it.
        pairs: List of the pairs (token, expert, weight) of the column.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
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
    """Addresses of the operands of a product with experts in FP8 codes with block scales.

    Attributes:
        x: Activations.
        w: e4m3 codes of the weights [K, local_experts, N].
        groups: Scale group of each of the K rows, one byte each.
        widths: Number of outputs in each of the B blocks of an expert, one byte each.
        scale: float32 scales [G, local_experts, B].
        factors: Scratch buffer [N] of the PE. Kernels of the emulator do not use it.
        pairs: List of the pairs (token, expert, weight) of the column.
        codes: Scratch buffer [rows, N] of the PE. Kernels of the emulator do not use it.
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
        P: Maximum number of pairs (token, expert) of the column.
        M: Tokens.
        K, N: Inputs and outputs of an expert.
        local_experts: Experts of the column.
    """

    P: int
    M: int
    K: int
    N: int
    local_experts: int


class InputProduct(NamedTuple):
    """Settings of the first product of an expert layer, which has a row of outputs per pair.

    Attributes:
        k_stride: Elements from one row of the weights, or of the scales, to the next.
        out_stride: Elements from one pair to the next in the outputs.
        weighted: 1 to multiply each product by the pair's routing weight, else 0.
        columns: Columns of the mesh. Lanes beyond the last column have no PE.
    """

    k_stride: int
    out_stride: int
    weighted: int
    columns: int


class BlockScaledInputProduct(NamedTuple):
    """Settings of `InputProduct` for codes whose rows are not as far apart as those of the scales.

    Attributes:
        k_stride: Elements from one row of the codes to the next.
        scale_stride: Elements from one row of the scales to the next.
        out_stride: Elements from one pair to the next in the outputs.
        weighted: 1 to multiply each product by the pair's routing weight, else 0.
        columns: Columns of the mesh. Lanes beyond the last column have no PE.
    """

    k_stride: int
    scale_stride: int
    out_stride: int
    weighted: int
    columns: int


class OutputProduct(NamedTuple):
    """Settings of the second product of an expert layer, which has a row of outputs per token.

    Attributes:
        weighted: 1 to multiply the activations of each pair by its routing weight, else 0.
        columns: Columns of the mesh. Lanes beyond the last column have no PE.
    """

    weighted: int
    columns: int


class QuantisedScales(NamedTuple):
    """Coding of quantised weights, and the numbers of their scales.

    Attributes:
        coding: Number of the coding: int8, FP8 or int4.
        G: Groups of rows that share scales.
        rows: Rows of the scratch buffer for codes.
    """

    coding: int
    G: int
    rows: int


class BlockScales(NamedTuple):
    """Numbers of the scales of FP8 codes with block scales.

    Attributes:
        G: Groups of rows that share scales.
        B: Blocks of neighbouring outputs of an expert that share scales.
        rows: Rows of the scratch buffer for codes.
    """

    G: int
    B: int
    rows: int


class ColumnGroups(NamedTuple):
    """Division of the mesh columns among groups of neighbours, which divide the experts.

    The columns form segments of equal width. Each segment has the same number of groups, whose
    sizes differ by at most one, the larger groups first.

    Attributes:
        columns: Columns of the mesh.
        groups: Groups per segment.
        segments: Segments of the mesh.
    """

    columns: int
    groups: int
    segments: int


class ExpertBiasTensors(NamedTuple):
    """Addresses of the operands of `expert_bias`.

    Attributes:
        x: Sums in the accumulator type, a row of parts * N per pair or token.
        bias: Biases [parts, share] of the PE.
        pairs: List of the pairs (token, expert, weight) of the column.
    """

    x: int
    bias: int
    pairs: int


class ExpertBiasShape(NamedTuple):
    """Sizes of the biases of experts.

    Attributes:
        P: Maximum number of pairs (token, expert) of the column.
        M: Tokens.
        N: Outputs of an expert in each part.
        parts: Parts of an expert's outputs, for example gate and up.
        local_experts: Experts of the column.
        stride: Elements from one pair or token to the next in the sums.
    """

    P: int
    M: int
    N: int
    parts: int
    local_experts: int
    stride: int


class ChoiceTensors(NamedTuple):
    """Addresses of the operands of `router_choose`, all float32.

    Attributes:
        choice: Values [M, E] by which experts are selected.
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
