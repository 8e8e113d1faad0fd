"""Groups of operands of norms and activation functions.

`wse_kernels._operands` says how a kernel takes a group.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ActivationFunction", "FeatureGroups", "LayerNormTensors", "LayerSumsTensors", "NormTensors", "RowGroups"]


class NormTensors(NamedTuple):
    """Addresses of the operands of an RMS norm.

    Attributes:
        x: Activations [M, K].
        sums: Sums of squares [M].
        gain: Trained gain [K] in the weight type.
        out: Activations [M, K].
    """

    x: int
    sums: int
    gain: int
    out: int


class LayerNormTensors(NamedTuple):
    """Addresses of the operands of a layer norm.

    Attributes:
        x: Activations [M, K].
        sums: float32 [M, 2], the sums of the values and of their squares.
        gain, bias: Trained gain and bias [K] in the weight type.
        out: Activations [M, K].
    """

    x: int
    sums: int
    gain: int
    bias: int
    out: int


class LayerSumsTensors(NamedTuple):
    """Addresses of the operands of a layer norm that is applied after a product with weights.

    Attributes:
        x: Sums of the product [M, N] in the accumulator type.
        sums: [M, 2] in the accumulator type, the sums of the values and of their squares.
        of_gain, of_bias: float32 [N], products of the norm's gain and bias with the weights.
    """

    x: int
    sums: int
    of_gain: int
    of_bias: int


class RowGroups(NamedTuple):
    """Groups of the PEs of a column, which divide work that all of them would otherwise repeat.

    Attributes:
        length: PEs of the column.
        groups: Groups of neighbours that they form.
    """

    length: int
    groups: int


class FeatureGroups(NamedTuple):
    """Groups of the PEs of a column that divide the features of an activation function.

    Attributes:
        length: PEs of the column.
        groups: Groups of neighbours that they form.
        shared_tokens: Number of tokens whose features are divided as one vector.
        padding: Number of zeros to write after the results.
    """

    length: int
    groups: int
    shared_tokens: int
    padding: int


class ActivationFunction(NamedTuple):
    """Activation function of a feed-forward layer.

    Attributes:
        function: Index into ``ACTIVATIONS``.
        gated: 1 if the result is multiplied by an up projection, else 0.
        limit_pico: Limit of clamped_silu in units of 1e-12.
    """

    function: int
    gated: int
    limit_pico: int
