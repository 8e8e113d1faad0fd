"""Groups of operands of the gated delta rule and of the short convolution before it.

A group is a named tuple that replaces single operands (`wse_kernels.operands.group`).
"""

from __future__ import annotations

from typing import NamedTuple


class DeltaShape(NamedTuple):
    """Sizes of the heads of linear attention on one column of PEs.

    Attributes:
        M: Number of tokens.
        Hk: Number of key heads.
        G: Number of value heads per key head. There are H = Hk * G value heads.
        D: Number of features of a key.
        V: Number of value features per value head on the column.
        tokens_before: Number of tokens of the phase that were processed before these M tokens. At
            the start of a sequence, states and stored inputs count as zeros.
    """

    M: int
    Hk: int
    G: int
    D: int
    V: int
    tokens_before: int


class StateSlice(NamedTuple):
    """Slices of the recurrent state of a column of PEs that the rows of the column store.

    Row r stores key features starting at ``K * (r % key_rows)``, and value features starting at ``N
    * (r // key_rows)``. The last rows may store none.

    Attributes:
        K, N: Maximum numbers of key features, and of value features per value head, on a PE.
        key_rows: Number of neighbouring rows that together have all key features.
    """

    K: int
    N: int
    key_rows: int


class KeyTensors(NamedTuple):
    """Addresses of the operands of `place_keys`, which copies features from column to row layout.

    Attributes:
        x: Features that the mesh column computes, in the accumulator type: for each token, queries
            [Hk, F], then keys [Hk, F]. The F features of a head are consecutive.
        first: float32 number: index + 1 of the first of the column's F features, or 0 if the column
            has none.
        out: Features that the mesh row stores, [M, 2, Hk, K], in the accumulator type.
    """

    x: int
    first: int
    out: int


class ConvolutionTensors(NamedTuple):
    """Addresses of the operands of the short convolution of queries, keys and values.

    Attributes:
        new_keys: New queries and keys [M, 2, Hk, K] in the accumulator type.
        new_values: New values [H, V] of the first token, followed by its gates [H, V], in the
            accumulator type. `ConvolutionShape.stride` is the distance to the next token.
        key_taps: Weights [taps, 2, Hk, K] of the PE's slices of queries and keys.
        value_taps: Weights [taps, H, V].
        inputs: The last taps - 1 inputs before the new ones, [taps - 1, 2 * Hk * K + C].
        keys: float32 results [M, 2, Hk, K] for queries and keys.
        sums: float32 results [2, M, H, V] for values and gates. Channels that the PE does not own
            are 0.
    """

    new_keys: int
    new_values: int
    key_taps: int
    value_taps: int
    inputs: int
    keys: int
    sums: int


class ConvolutionShape(NamedTuple):
    """Sizes of a short convolution, and the layout of the new values.

    Attributes:
        taps: Number of inputs per output.
        C: Maximum number of value channels whose results a PE computes.
        stride: Distance from the new values of one token to those of the next, in elements.
    """

    taps: int
    C: int
    stride: int


class DeltaInputs(NamedTuple):
    """Layout and range of the inputs of `delta_update`.

    Attributes:
        stride: Distance from the inputs and gates of one token to the next, in elements.
        max_strength: Upper limit of the write strength, which is this factor times the sigmoid of
            an input.
    """

    stride: int
    max_strength: int


class DeltaTensors(NamedTuple):
    """Addresses of the operands of `delta_update`, which applies the gated delta rule.

    Attributes:
        inputs: First token's inputs [2, H] of write strength and decay, in the accumulator type.
        decay: Weights [2, H]: logarithm of the decay rate, and bias of the decay.
        keys: float32 queries and keys [M, 2, Hk, K] of the PE.
        sums: float32 sums over all PEs of the column, in the layout of `state_products`.
        state: float32 state [H, K, N].
        out: Results [M, H, V] in the activation type.
        gates: First token's gates [H, V] in the accumulator type, which are replaced by their SiLU.
        scratch: float32 [2, M]: sums of decays, and write strengths.
    """

    inputs: int
    decay: int
    keys: int
    sums: int
    state: int
    out: int
    gates: int
    scratch: int
