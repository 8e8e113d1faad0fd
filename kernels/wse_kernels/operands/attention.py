"""Groups of operands of attention, rotary embeddings and latent caches.

A group is a named tuple that replaces single operands (`wse_kernels.operands.group`).
"""

from __future__ import annotations

from typing import NamedTuple


class CacheAppend(NamedTuple):
    """Addresses of the KV cache on a PE, and of the new keys and values that are appended to it.

    Attributes:
        k, v: New keys [tokens, E] and values [tokens, Ev].
        k_cache, v_cache: Cached keys [capacity, E] and values [capacity, Ev].
    """

    k: int
    v: int
    k_cache: int
    v_cache: int


class HeadShape(NamedTuple):
    """Sizes of the products of queries and cached keys, and of softmax weights and cached values.

    Attributes:
        M: Number of tokens.
        Hk: Number of KV heads.
        queries_per_kv: Number of query heads per KV head. There are H = Hk * queries_per_kv query
            heads.
        F: Number of features per head on the PE.
        T: Number of cache entries on the PE.
    """

    M: int
    Hk: int
    queries_per_kv: int
    F: int
    T: int


class ScoreShape(NamedTuple):
    """Sizes of the attention scores [M, H, T] on one PE, and their scale factor.

    Attributes:
        M: Number of tokens.
        H: Number of query heads.
        T: Number of cache entries on the PE.
        scale_pico: Scale factor of the scores, such as 1 / sqrt(features per head), in units of
            1e-12.
    """

    M: int
    H: int
    T: int
    scale_pico: int


class Window(NamedTuple):
    """Limits on the cache entries that a token attends to. 0 means no limit.

    Attributes:
        window: Length of the sliding window: a token attends to the last ``window`` positions,
            including its own.
        chunk: Length of an attention chunk: positions are divided into chunks of this length, and a
            token attends only to positions in its own chunk.
    """

    window: int
    chunk: int


class SoftmaxTensors(NamedTuple):
    """Addresses of the operands of a softmax over the cache entries that one PE stores.

    Attributes:
        scores: Scores [M, H, T] in the accumulator type.
        maxima: float32 maxima [M, H], which are subtracted from the scaled scores.
        out: Softmax weights [M, H, T] in the activation type, before the division by their sum.
        sums: float32 sums [M, H] of these weights.
    """

    scores: int
    maxima: int
    out: int
    sums: int


class SharedSoftmaxTensors(NamedTuple):
    """Addresses of the operands of a softmax whose work is divided among neighbouring PE columns.

    Attributes:
        scores: Scores [M, H, T] in the accumulator type.
        maxima: float32 maxima [M, H], which are subtracted from the scaled scores.
        out: Softmax weights [M, H, T] in the activation type, before the division by their sum.
    """

    scores: int
    maxima: int
    out: int


class SoftmaxColumns(NamedTuple):
    """Division of the softmax-weight computation among PE columns.

    Columns that store the same scores form a group of neighbours. Each group is divided into sets,
    and the columns of a set divide all weights of the group among themselves.

    Attributes:
        first_col: First mesh column that computes weights.
        columns: Number of columns that compute weights.
        groups: Number of groups of columns. Group sizes differ by at most one, and the larger
            groups come first.
        sharers: Number of columns per set. A group of c columns has c // sharers sets, but at least
            one, so that a set can have more columns.
    """

    first_col: int
    columns: int
    groups: int
    sharers: int


class RunningSoftmax(NamedTuple):
    """Addresses of the operands of one step of ring attention.

    In ring attention, keys and values pass from row to row of PEs, and each step updates running
    maxima and sums of the softmax.

    Attributes:
        scores: Scores [M, H, T] of this step in the accumulator type.
        v: Values [T, Hk, F] of this step.
        maxima, sums: Running float32 maxima and running sums of softmax weights, each [M, H].
        out: Running sums of weighted values [M, H, F] in the accumulator type.
    """

    scores: int
    v: int
    maxima: int
    sums: int
    out: int


class RingStep(NamedTuple):
    """Position of a step in ring attention, where keys and values pass around a ring of PE rows.

    Attributes:
        round: Index of the step.
        ring: Number of PE rows in the ring.
    """

    round: int
    ring: int


class QueryKeyValue(NamedTuple):
    """Addresses of queries [M, Hq, F], keys [M, Hk, F] and values [M, Hk, F].

    All three are in the activation type.
    """

    q: int
    k: int
    v: int


class RopeShape(NamedTuple):
    """Sizes of queries and keys to which rotary embeddings are applied.

    Attributes:
        M: Number of tokens.
        Hq, Hk: Numbers of query heads and key heads.
        F: Number of features per head on the PE.
        R: Number of rotary dimensions per head, which is even.
    """

    M: int
    Hq: int
    Hk: int
    F: int
    R: int


class RotatedShape(NamedTuple):
    """Sizes of a tensor [M, H, F] to which rotary embeddings are applied.

    Attributes:
        M: Number of tokens.
        H: Number of heads.
        F: Number of features per head on the PE.
        R: Number of rotary dimensions per head, which is even.
    """

    M: int
    H: int
    F: int
    R: int


class RotaryFactors(NamedTuple):
    """Scaling of the cosines and sines of rotary embeddings, and whether they are already computed.

    Attributes:
        multiplier_pico: Factor applied to the cosines and sines, in units of 1e-12. Not used if
            ``turned`` is 1.
        turned: 1 if the kernel `rotary_turns` has already computed the cosines and sines, else 0.
    """

    multiplier_pico: int
    turned: int


class RotatedTensors(NamedTuple):
    """Addresses of the operands of `place_rotated`, which rearranges rotated features.

    In latent attention, a mesh row computes some features of some heads, and a mesh column needs
    other features of all heads. The heads and features are listed by index + 1, and 0 means
    padding.

    Attributes:
        x: Features of the row [M, Hl, K] in the accumulator type. They are consecutive features of
            each head.
        heads: float32 [Hl], index + 1 of each of the row's heads.
        first: float32, index + 1 of the first of the row's K features.
        feature_ordinals: float32 [n], index + 1 of each feature that the column needs.
        out: Features of the column [M, H, n] in the accumulator type.
    """

    x: int
    heads: int
    first: int
    feature_ordinals: int
    out: int


class LatentShape(NamedTuple):
    """Sizes of the heads in latent attention, where the cache stores one short vector per token.

    Attributes:
        M: Number of tokens.
        H: Number of heads in the layer.
        Hl: Number of heads that the PEs of one row compute.
        n: Number of features per head on the PE.
    """

    M: int
    H: int
    Hl: int
    n: int
