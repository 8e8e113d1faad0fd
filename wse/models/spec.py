"""ModelSpec: the description of a transformer that the compiler uses, regardless of file format."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.models.attention_traits import HeadShape, Latent, LinearAttention, PositionScale, Rope
from wse.models.expert_traits import Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Properties of a layer that may vary between the layers of a model.

    A token attends to itself and to earlier tokens, within the limits given by ``window`` and
    ``chunk``.

    Attributes:
        rotary: Whether queries and keys are rotated by their positions.
        window: Number of tokens that a token attends to, including itself. None if there is no
            window.
        chunk: Length of the chunks into which a sequence is divided. A token attends only to its
            own chunk. None if the layer attends across the whole text.
        experts: Whether the feed-forward block is a mixture of experts.
        linear: Whether linear attention with a state of constant size replaces attention with a KV
            cache. The fields above except ``experts`` then have no meaning.
        pre_norms, post_norms: Whether the inputs and the outputs of the layer's blocks are
            normalised. None: as in the other layers (``ModelSpec.pre_norms`` and ``post_norms``).
    """

    rotary: bool = True
    window: int | None = None
    chunk: int | None = None
    experts: bool = False
    linear: bool = False
    pre_norms: bool | None = None
    post_norms: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The format in which a checkpoint stores its quantised ("packed") matrices.

    Attributes:
        method: Type of the packed matrices, as named by ``--dtype``: ``fp8``, ``mxfp4``, ``int4``,
            or "" if no matrix is packed.
        block: Size (outputs, inputs) of the blocks of a matrix that share one fp8 scale in the
            checkpoint.
        runs: Matrices in which another number of adjacent outputs than ``block[0]`` share an fp8
            scale, because wse reorders the outputs of the checkpoint. Pairs of the matrix name in
            wse, without the layer, and this number.
        unpacked: Names of linear layers, without the layer index, that the checkpoint stores
            unpacked, in ``ModelSpec.dtype``.
    """

    method: str = ""
    block: tuple[int, int] = (128, 128)
    runs: tuple[tuple[str, int], ...] = ()
    unpacked: tuple[str, ...] = ()

    def run_of(self, name: str) -> int:
        """Return the number of adjacent outputs of a matrix that share an fp8 scale.

        Args:
            name: Name of the matrix in wse, without the layer prefix.
        """
        return dict(self.runs).get(name, self.block[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Shape and mathematics of a decoder-only transformer. The defaults are Llama's.

    Sizes count elements. Query head h uses the keys and values of KV head ``h // queries_per_kv``.

    Attributes:
        name: Name of the model, for reports.
        family: Name of its family, the first of its `Family.model_types`.
        layers: Traits of each layer, in order.
        hidden_size: Width of the residual stream.
        head_count: Number of query heads.
        kv_head_count: Number of key-value heads.
        head_size: Features per head. With latent attention, the features of a key in the cache.
        attention_scale: Factor applied to the attention scores.
        rope: Rotary position embeddings; None if no layer rotates.
        window_rope: Rotary position embeddings of layers with a sliding window, if they differ from
            ``rope``. Both rotate the same number of features, unless ``window_heads`` is given.
        window_heads: KV heads of layers with a sliding window, if they differ from
            ``kv_head_count`` and ``head_size``. Requires ``window_rope`` if ``rope`` is given.
        ffn_size: Width of the dense feed-forward blocks; 0 if there are none.
        vocab_size: Number of tokens in the vocabulary.
        context_limit: Maximum number of tokens in a sequence.
        norm_eps: Epsilon of the norms.
        head_bias: Whether the output head adds a trained vector.
        tied_embedding: Whether the embedding table also serves as the output head.
        dtype: Element type of all unpacked tensors in the checkpoint: ``float32``, ``float16`` or
            ``bfloat16``.
        bos_token_id: Token that starts a sequence; None if there is none.
        eos_token_ids: Tokens that end a sequence.
        qkv_bias, output_bias: Whether these attention projections add a trained vector.
        head_norm: Norm of each head's queries and keys. ``rms``: root mean square with a trained
            gain, before rotation. ``rms_all``: the same over the features of all heads together.
            ``l2``: without a gain, after rotation, only in layers that rotate. "": none.
        score_cap: With a cap c, a score becomes c * tanh(score / c) before masking. None: no cap.
        value_norm: Whether each head's values are divided by their root mean square.
        keys_as_values: Whether values are the projected keys, before norms and rotation, so that
            values have no projection. Layers with ``window_heads`` have one nevertheless.
        sinks: Whether each head has a trained score that takes part in the softmax without a value.
        position_scale: Position-dependent factor applied to queries; None if there is none.
        attention_gate: Whether the result of each query head is multiplied by the sigmoid of a
            trained projection of the input.
        linear: Sizes of linear attention; None if no layer has it.
        latent: Sizes of latent attention; None for other attention. With latent attention,
            ``head_size`` is kv_rank + rope_size, rotated features come first, and ``kv_head_count``
            is 1.
        activation: ``silu``, ``gelu``, ``gelu_tanh`` (the tanh approximation), ``relu``, ``relu2``
            (the square of ``relu``), or ``clamped_silu`` of gpt-oss: x * sigmoid(1.702 x) with x
            limited from above, times one more than the up projection, which is limited from both
            sides.
        activation_limit: Limit of ``clamped_silu``; 0 for other activations.
        gated: Whether the activated gate projection multiplies the up projection.
        ffn_bias: Whether the feed-forward projections, including those of experts, add a trained
            vector.
        experts: Mixture of experts; None if no layer has one.
        norm: ``rms``, or ``layer``, which also subtracts the mean.
        norm_bias: Whether layer norms add a trained vector.
        norm_unit_offset: Whether gains are stored minus one.
        pre_norms: Whether the input of a block is normalised, unless its layer specifies it.
        post_norms: Whether the output of a block is normalised before it is added to the residual
            stream, unless its layer specifies it.
        stream_scale: Whether the residual stream is multiplied by a trained number after each layer.
        residual_scale: Factor applied to the output of a block before it is added to the residual
            stream.
        parallel_blocks: Whether attention and feed-forward block of a layer read the same residual
            stream, to which both outputs are added. A wafer computes one block after the other.
        learned_positions: Number of rows in the position table that is added to the embedding; 0
            without such a table.
        embedding_scale: Factor applied to embeddings, rounded to the element type before use.
        logit_scale: Factor applied to the logits, before the cap.
        logit_cap: Cap of the logits, applied like ``score_cap``. None: no cap.
        packing: Storage format of quantised matrices in the checkpoint.
    """

    name: str = ""
    family: str = ""
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
    head_bias: bool = False
    window_rope: Rope | None = None
    window_heads: HeadShape | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    head_norm: str = ""
    value_norm: bool = False
    keys_as_values: bool = False
    score_cap: float | None = None
    sinks: bool = False
    position_scale: PositionScale | None = None
    attention_gate: bool = False
    linear: LinearAttention | None = None
    latent: Latent | None = None
    activation: str = "silu"
    activation_limit: float = 0.0
    gated: bool = True
    ffn_bias: bool = False
    experts: Experts | None = None
    norm: str = "rms"
    norm_bias: bool = True
    norm_unit_offset: bool = False
    pre_norms: bool = True
    post_norms: bool = False
    stream_scale: bool = False
    residual_scale: float = 1.0
    parallel_blocks: bool = False
    learned_positions: int = 0
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    logit_cap: float | None = None
    packing: Packing = Packing()

    @property
    def weight_type(self) -> str:
        """Element type of linear layers in the checkpoint: packed type if any, else ``dtype``.

        All machines use this type unless ``--dtype`` names another one.
        """
        return self.packing.method or self.dtype

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def queries_per_kv(self) -> int:
        """Number of query heads per KV head."""
        return self.head_count // self.kv_head_count

    @property
    def query_size(self) -> int:
        """Number of query values per token in a layer, for all heads together."""
        return self.head_count * self.head_size

    @property
    def key_size(self) -> int:
        """Number of key values per token in a layer, for all KV heads together."""
        return self.kv_head_count * self.head_size

    @property
    def with_window_heads(self) -> ModelSpec:
        """This model, with the heads of its layers with a sliding window in all layers."""
        heads = self.window_heads
        if heads is None:
            return self
        return replace(
            self,
            kv_head_count=heads.kv_count,
            head_size=heads.size,
            rope=self.window_rope,
            window_heads=None,
            keys_as_values=False,
        )

    def with_heads_of(self, layer: Layer) -> ModelSpec:
        """Return this model, with the heads of one of its layers in all layers."""
        return self if layer.window is None else self.with_window_heads

    def has_pre_norms(self, layer: Layer) -> bool:
        """Return whether the inputs of a layer's blocks are normalised."""
        return self.pre_norms if layer.pre_norms is None else layer.pre_norms

    def has_post_norms(self, layer: Layer) -> bool:
        """Return whether the outputs of a layer's blocks are normalised."""
        return self.post_norms if layer.post_norms is None else layer.post_norms

    def rope_of(self, layer: Layer) -> Rope | None:
        """Return the rotary position embeddings of a layer, or None if the layer has none."""
        if not layer.rotary:
            return None
        return self.rope if layer.window is None or self.window_rope is None else self.window_rope

    @property
    def rotary_size(self) -> int:
        """Number of rotary dimensions per head; 0 if no layer uses rotation."""
        return 0 if self.rope is None else 2 * len(self.rope.frequencies)

    @property
    def has_unit_rope(self) -> bool:
        """True if RoPE rotates features without scaling them.

        Kernels can then process features without rotary positions as pairs with the angle 0,
        because such a rotation does not change them.
        """
        return all(rope is None or rope.multiplier == 1.0 for rope in (self.rope, self.window_rope))

    @property
    def has_norm_bias(self) -> bool:
        """True if norms add a trained vector."""
        return self.norm == "layer" and self.norm_bias

    @property
    def has_head_gains(self) -> bool:
        """True if queries and keys are normalised with trained gains, before they are rotated."""
        return self.head_norm in ("rms", "rms_all")

    @property
    def cache_features(self) -> int:
        """Number of features that each token adds to the KV cache of a layer that has one."""
        return self.head_size if self.latent is not None else 2 * self.key_size

    @property
    def cache_features_of_layers(self) -> int:
        """Number of features that each token adds to the KV caches of all layers together."""
        return sum(self.with_heads_of(layer).cache_features for layer in self.layers if not layer.linear)
