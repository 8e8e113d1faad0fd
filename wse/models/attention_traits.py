"""Traits of attention: rotary positions, query factors, latent and linear attention."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embeddings (RoPE) of a model.

    Feature p of a head is rotated together with feature ``p + len(frequencies)``, by the angle
    ``position * frequencies[p]``. Features with an index of at least ``2 * len(frequencies)`` are
    not rotated.

    Attributes:
        frequencies: Angle per token in radians, as float32 values. They include any scaling for
            long contexts.
        multiplier: Factor applied to cosine and sine.
    """

    frequencies: tuple[float, ...]
    multiplier: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Number and size of KV heads.

    Attributes:
        kv_count: Number of KV heads.
        size: Features per head.
    """

    kv_count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScale:
    """Factor by which attention queries are multiplied, which grows with the token's position.

    The factor is 1 + coefficient * ln(1 + floor((position + first) / floor_tokens)), where the
    first token has position 0.

    Attributes:
        coefficient, floor_tokens, first: Numbers in this formula.
        rotary: True to scale queries in layers with rotary position embeddings, False to scale them
            in the other layers.
    """

    coefficient: float
    floor_tokens: int
    first: int = 1
    rotary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Sizes of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), in features.

    For each token, the KV cache stores one latent vector and some rotated key features, which all
    heads share. Each head also has unrotated key and query features, which are computed from latent
    vectors.

    Attributes:
        q_rank: Size of the latent vector from which queries are computed; 0 if they are computed
            from the hidden vector.
        kv_rank: Size of the latent vector of keys and values.
        nope_size: Number of non-rotary query and key dimensions per head.
        rope_size: Number of rotary query and key dimensions per head.
        value_size: Number of value features per head.
        norm_eps: Epsilon of the root mean square norms of the latent vectors.
    """

    q_rank: int
    kv_rank: int
    nope_size: int
    rope_size: int
    value_size: int
    norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Sizes of linear attention with the gated delta rule (Gated DeltaNet, arXiv 2412.06464).

    1. Queries, keys and values pass through a causal convolution per channel, followed by SiLU.
    2. Each value head has a state matrix ``[key_size, value_size]``. Each token multiplies the
       state by a decay and then applies the delta rule. Value head h uses the queries and keys of
       key head ``h // values_per_key``.
    3. The result of a head is divided by its root mean square, and multiplied by a trained gain and
       by SiLU of a gate.

    Attributes:
        key_heads, value_heads: Number of query and key heads, and number of value heads.
        key_size, value_size: Features per key and per value.
        taps: Number of inputs per output of the convolution.
        max_strength: Upper limit of the write strength, which is this factor times the sigmoid of a
            projection. With 2, the state can change sign (arXiv 2411.12537).
        norm_eps: Epsilon of the norm in step 3; None if it is that of the model's other norms.
    """

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    taps: int
    max_strength: int = 1
    norm_eps: float | None = None

    @property
    def values_per_key(self) -> int:
        """Number of value heads per key head."""
        return self.value_heads // self.key_heads

    @property
    def state_elements(self) -> int:
        """Number of elements of a user's state matrices in one layer."""
        return self.value_heads * self.key_size * self.value_size

    def user_bytes(self, element_bytes: int) -> int:
        """Return how many bytes linear attention stores for a user in one layer.

        It stores the float32 state matrices, and the last inputs of the convolution in the element
        type of activations.

        Args:
            element_bytes: Bytes per activation.
        """
        channels = 2 * self.key_heads * self.key_size + self.value_heads * self.value_size
        return 4 * self.state_elements + element_bytes * (self.taps - 1) * channels
