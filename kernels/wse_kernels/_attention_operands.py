"""Groups of operands of attention, rotary embeddings and latent caches.

`wse_kernels._operands` says how a kernel takes a group.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "CacheAppend",
    "HeadShape",
    "LatentShape",
    "QueryKeyValue",
    "RingStep",
    "RopeShape",
    "RotaryTurns",
    "RotatedShape",
    "RotatedTensors",
    "RunningSoftmax",
    "ScoreShape",
    "SharedSoftmaxTensors",
    "SoftmaxColumns",
    "SoftmaxTensors",
    "Window",
]


class CacheAppend(NamedTuple):
    """Addresses of new keys and values, and of the caches that they are appended to.

    Attributes:
        k, v: New keys [tokens of the chunk, E] and values [tokens of the chunk, Ev].
        k_cache, v_cache: Caches [capacity, E] and [capacity, Ev].
    """

    k: int
    v: int
    k_cache: int
    v_cache: int


class HeadShape(NamedTuple):
    """Sizes of products of queries or softmax weights with a cache.

    Attributes:
        M: Tokens.
        Hk: KV heads.
        queries_per_kv: Query heads per KV head. There are H = Hk * queries_per_kv query heads.
        F: Features of a head on the PE.
        T: Cache entries on the PE.
    """

    M: int
    Hk: int
    queries_per_kv: int
    F: int
    T: int


class ScoreShape(NamedTuple):
    """Sizes and scale of the scores [M, H, T].

    Attributes:
        M: Tokens.
        H: Query heads.
        T: Cache entries on the PE.
        scale_pico: Factor of the scores in units of 1e-12.
    """

    M: int
    H: int
    T: int
    scale_pico: int


class Window(NamedTuple):
    """Limits on the entries that a token attends to, in positions. 0 means no limit.

    Attributes:
        window: A token sees only the last ``window`` positions, its own included.
        chunk: A token sees only its own chunk of ``chunk`` positions.
    """

    window: int
    chunk: int


class SoftmaxTensors(NamedTuple):
    """Addresses of the operands of a softmax over local cache entries.

    Attributes:
        scores: Scores [M, H, T] in the accumulator type.
        maxima: float32 maxima [M, H], which are subtracted from the scaled scores.
        out: Softmax weights [M, H, T] in the activation type, not normalised.
        sums: float32 sums [M, H] of the weights.
    """

    scores: int
    maxima: int
    out: int
    sums: int


class SharedSoftmaxTensors(NamedTuple):
    """Addresses of the operands of a softmax that neighbouring columns divide among them.

    Attributes:
        scores: Scores [M, H, T] in the accumulator type.
        maxima: float32 maxima [M, H], which are subtracted from the scaled scores.
        out: Softmax weights [M, H, T] in the activation type, not normalised.
    """

    scores: int
    maxima: int
    out: int


class SoftmaxColumns(NamedTuple):
    """Columns that divide the computation of softmax weights among them.

    Attributes:
        first_col: First mesh column that computes weights.
        columns: Number of columns that do.
        groups: Groups of these columns. Sizes differ by at most one, the larger groups first.
        sharers: Desired number of columns that divide the weights. A group of c columns is cut into
            c // sharers sets of columns (at least one), and the columns of a set divide all weights
            among them.
    """

    first_col: int
    columns: int
    groups: int
    sharers: int


class RunningSoftmax(NamedTuple):
    """Addresses of the operands of a step of ring attention.

    Attributes:
        scores: Scores [M, H, T] of this step in the accumulator type.
        v: Values [T, Hk, F] of this step.
        maxima, sums: Running float32 maxima and sums of weights [M, H].
        out: Running sums of weighted values [M, H, F] in the accumulator type.
    """

    scores: int
    v: int
    maxima: int
    sums: int
    out: int


class RingStep(NamedTuple):
    """Step of ring attention.

    Attributes:
        round: Index of the step.
        ring: Rows of the ring.
    """

    round: int
    ring: int


class QueryKeyValue(NamedTuple):
    """Addresses of queries [M, Hq, F], keys [M, Hk, F] and values [M, Hk, F], as activations."""

    q: int
    k: int
    v: int


class RopeShape(NamedTuple):
    """Sizes of queries, keys and values with rotary embeddings.

    Attributes:
        M: Tokens.
        Hq, Hk: Query heads; key heads.
        F: Features of a head on the PE.
        R: Features of a head that are rotated, an even number.
    """

    M: int
    Hq: int
    Hk: int
    F: int
    R: int


class RotatedShape(NamedTuple):
    """Sizes of heads with rotary embeddings.

    Attributes:
        M: Tokens.
        H: Heads.
        F: Features of a head on the PE.
        R: Features of a head that are rotated, an even number.
    """

    M: int
    H: int
    F: int
    R: int


class RotaryTurns(NamedTuple):
    """Origin of the cosines and sines of rotary angles.

    Attributes:
        multiplier_pico: Factor of cos and sin in units of 1e-12. Not used if ``turned`` is 1.
        turned: 1 if cos and sin were computed before by the kernel `rotary_turns`, else 0.
    """

    multiplier_pico: int
    turned: int


class RotatedTensors(NamedTuple):
    """Addresses of the operands of `place_rotated`.

    Attributes:
        x: Features of the row [M, Hl, K] in the accumulator type; consecutive features of each
            head.
        heads: float32 [Hl], ordinals of the row's heads.
        first: float32 ordinal of the first of the row's K features.
        feature_ordinals: float32 [n], ordinals of the features that the column needs.
        out: Features for the column [M, H, n] in the accumulator type.
    """

    x: int
    heads: int
    first: int
    feature_ordinals: int
    out: int


class LatentShape(NamedTuple):
    """Sizes of the heads of latent attention.

    Attributes:
        M: Tokens.
        H: All heads.
        Hl: Heads of the row.
        n: Features of a head on the PE.
    """

    M: int
    H: int
    Hl: int
    n: int
