"""Groups of operands of norms and activation functions.

A group is a named tuple that replaces single operands (`wse_kernels.operands.group`).
"""

from __future__ import annotations

from typing import NamedTuple


class NormTensors(NamedTuple):
    """Addresses of the operands of an RMS norm.

    Attributes:
        x: Input activations [M, K].
        sums: Sums of squares [M] over all features of each token.
        gain: Trained gain [K] in the weight type.
        out: Normalised activations [M, K].
    """

    x: int
    sums: int
    gain: int
    out: int


class LayerNormTensors(NamedTuple):
    """Addresses of the operands of a layer norm.

    Attributes:
        x: Input activations [M, K].
        sums: float32 [M, 2], the sums of the values and their squares.
        gain, bias: Trained gain and bias [K] in the weight type. Without a bias, ``bias`` is not
            used.
        out: Normalised activations [M, K].
    """

    x: int
    sums: int
    gain: int
    bias: int
    out: int


class LayerSumsTensors(NamedTuple):
    """Addresses of the operands of a layer norm that is applied after the next matrix product.

    The product is computed from unnormalised inputs, and its sums are corrected afterwards.

    Attributes:
        x: Sums of the product [M, N] in the accumulator type.
        sums: [M, 2] in the accumulator type, the sums of the inputs and their squares.
        gain_product, bias_product: float32 vectors [N]: the norm's gain and the norm's bias, each
            multiplied by the weights. Without a bias, ``bias_product`` is not used.
    """

    x: int
    sums: int
    gain_product: int
    bias_product: int


class GainAndBias(NamedTuple):
    """How a layer norm applies its gain, and whether it has a bias.

    Attributes:
        offset: Integer added to the gain.
        biased: 1 if the bias is added, else 0.
    """

    offset: int
    biased: int


class RowGroups(NamedTuple):
    """Division of the PEs of a column into groups that share work.

    Without groups, all PEs of the column would repeat the same work.

    Attributes:
        length: Number of PEs in the column.
        groups: Number of groups of neighbouring PEs.
    """

    length: int
    groups: int


class FeatureGroups(NamedTuple):
    """Division of an activation function's features among groups of PEs in a column.

    Attributes:
        length: Number of PEs in the column.
        groups: Number of groups of neighbouring PEs.
        shared_tokens: Number of consecutive tokens whose features form one vector. The PEs of a
            group divide each such vector among themselves.
        padding: Number of zeros to write after the results.
    """

    length: int
    groups: int
    shared_tokens: int
    padding: int


class ActivationFunction(NamedTuple):
    """Choice of the activation function of a feed-forward layer.

    Attributes:
        function: Index into ``ACTIVATIONS``.
        gated: 1 if the result is multiplied by an up projection, else 0.
        limit_pico: Upper limit of the inputs of clamped_silu, in units of 1e-12. The other
            functions ignore it.
    """

    function: int
    gated: int
    limit_pico: int
