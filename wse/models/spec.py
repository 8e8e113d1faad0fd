"""ModelSpec: what the compiler needs to know of a transformer, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary positions: feature p of a head rotates with feature ``p + len(frequencies)`` by position x frequency.

    Features from twice that number on do not turn. ``frequencies`` are radians a token and float32 values, with every
    scaling for long contexts worked in; cosine and sine are multiplied with ``multiplier``.
    """

    frequencies: tuple[float, ...]
    multiplier: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The traits in which a layer may differ from its neighbours.

    A token sees itself and what came before; with ``window`` no further back than window - 1 tokens, with ``chunk``
    only tokens of its own stretch of ``chunk`` tokens. ``rotary``: queries and keys are rotated. ``experts``: the
    feed-forward block is a mixture of experts.
    """

    rotary: bool = True
    window: int | None = None
    chunk: int | None = None
    experts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): sizes in features.

    The cache stores for a token one latent vector of ``kv_rank`` and ``rope_size`` rotated key features, which all
    heads share. A head's queries and keys have ``nope_size`` features without rotation besides. Queries come out
    of a latent vector of ``q_rank`` features, or out of the hidden vector where that is 0. Latent vectors are scaled
    by their root mean square with an epsilon of their own, ``norm_eps``.
    """

    q_rank: int
    kv_rank: int
    nope_size: int
    rope_size: int
    value_size: int
    norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of ``count`` feed-forward blocks of ``ffn_size``, of which a token uses ``active``.

    ``scoring`` (``softmax`` or ``sigmoid``) turns the router's outputs into scores. With ``correction`` a trained value
    is added to the scores that choose, not to those that weigh. Only experts of the ``chosen_groups`` best of
    ``groups`` equal groups are chosen, a group counting as the sum of its two best. ``normalised``: the weights of the
    chosen ones are divided by their sum. ``scale`` multiplies them in the end. ``weighs_input``: they multiply what
    goes into an expert, not what comes out. ``shared_size`` is the width of a block that every token uses besides.
    """

    count: int
    active: int
    ffn_size: int
    scoring: str = "softmax"
    normalised: bool = True
    scale: float = 1.0
    groups: int = 1
    chosen_groups: int = 1
    correction: bool = False
    router_bias: bool = False
    weighs_input: bool = False
    shared_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScale:
    """A factor of queries without rotation: 1 + coefficient x ln(1 + floor((position + 1) / floor_tokens))."""

    coefficient: float
    floor_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The packing of a checkpoint's matrices, which changes no mathematics.

    Attributes:
        method: Type of the packed matrices, as ``--dtype`` calls it: ``fp8``, ``mxfp4``, ``int4`` or none ("").
        block: (outputs, inputs) of the file's matrices that share a scale of fp8.
        runs: By name of a matrix of ours without its layer, how many neighbouring outputs share a scale of fp8 where
            these are not ``block[0]``, as its outputs are others or in another order than the file's.
        unpacked: Our names, without the layer, of linear layers that the checkpoint stores in ``ModelSpec.dtype``.
    """

    method: str = ""
    block: tuple[int, int] = (128, 128)
    runs: tuple[tuple[str, int], ...] = ()
    unpacked: tuple[str, ...] = ()

    def run_of(self, name: str) -> int:
        """Return the number of neighbouring outputs of a matrix that share a scale."""
        return dict(self.runs).get(name, self.block[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The shape and the mathematics of a decoder-only transformer. Defaults are those of Llama.

    Sizes count elements. ``dtype`` is the element type (``float32``, ``float16`` or ``bfloat16``) of all tensors of the
    checkpoint that are not packed. Query head h shares the keys and values of kv head ``h // queries_per_kv``.

    Attributes:
        attention_scale: What scores are multiplied with.
        rope: None where no layer rotates.
        qkv_bias, output_bias: Whether these projections add a trained vector.
        head_norm: What is done to each head's queries and keys: nothing (""), ``rms`` (scaled by their root mean
            square and a trained gain, before rotation) or ``l2`` (scaled without gain, after it, in layers that
            rotate).
        score_cap: With a cap c scores become c tanh(score / c) before the mask.
        sinks: Each head has a trained score that takes part in the softmax and carries no value.
        position_scale: See there.
        latent: Sizes of latent attention; then ``head_size`` is that of a key in the cache, kv_rank + rope_size with
            the rotated features first, and ``kv_head_count`` is 1.
        ffn_size: Width of the dense feed-forward blocks; 0 where there are none.
        activation: ``silu``, ``gelu_tanh`` (the tanh approximation), ``gelu`` or ``clamped_silu`` (gpt-oss: x times
            sigmoid(1.702 x) with x at most a limit, times one more than the up half, kept from -limit to limit).
        activation_limit: That limit of ``clamped_silu``; 0 for other activations.
        gated: Whether the activation of one half multiplies another.
        ffn_bias: Whether the feed-forward projections, experts among them, add a trained vector.
        norm: ``rms``, or ``layer`` (mean removed, trained vector added).
        norm_unit_offset: Whether gains are stored less one.
        post_norms: Whether what a block adds to the residual stream is normalised once more.
        learned_positions: Rows of a table of positions that is added to the embedding; 0 for none.
        embedding_scale: What embeddings are multiplied with, rounded to the element type first.
        logit_cap: As ``score_cap``, of the logits.
        packing: How the checkpoint holds its matrices.
    """

    name: str
    family: str
    layers: tuple[Layer, ...]
    hidden_size: int
    head_count: int
    kv_head_count: int
    head_size: int
    attention_scale: float
    rope: Rope | None
    ffn_size: int
    vocab_size: int
    context_limit: int
    norm_eps: float
    tied_embedding: bool
    dtype: str
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    qkv_bias: bool = False
    output_bias: bool = False
    head_norm: str = ""
    score_cap: float | None = None
    sinks: bool = False
    position_scale: PositionScale | None = None
    latent: Latent | None = None
    activation: str = "silu"
    activation_limit: float = 0.0
    gated: bool = True
    ffn_bias: bool = False
    experts: Experts | None = None
    norm: str = "rms"
    norm_unit_offset: bool = False
    post_norms: bool = False
    learned_positions: int = 0
    embedding_scale: float = 1.0
    logit_cap: float | None = None
    packing: Packing = Packing()

    @property
    def weight_type(self) -> str:
        """Type of the published weights of linear layers: that of packed matrices, or ``dtype``.

        Every machine uses this type unless ``--dtype`` names another.
        """
        return self.packing.method or self.dtype

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one kv head."""
        return self.head_count // self.kv_head_count

    @property
    def rotary_size(self) -> int:
        """Features of a head that are rotated; 0 where no layer has rotation."""
        return 0 if self.rope is None else 2 * len(self.rope.frequencies)

    @property
    def has_unit_rope(self) -> bool:
        """True if a rotation by an angle of 0 leaves features unchanged: no factor multiplies cosines."""
        return self.rope is None or self.rope.multiplier == 1.0

    @property
    def cache_features(self) -> int:
        """Features that a token adds to the cache of one layer."""
        return self.head_size if self.latent is not None else 2 * self.kv_head_count * self.head_size
