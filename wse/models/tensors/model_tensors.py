"""Canonical names and shapes of all trained tensors of a model, and sizes derived from them.

Matrices are [out, in], vectors [size].

embedding, head [vocab, hidden]         head_bias [vocab]
positions [learned positions, hidden]
final_norm [hidden]
tensors of layer I, after the prefix ``layers.I.``:
    attention_norm, mlp_norm, post_attention_norm, post_mlp_norm [hidden]       stream_scale [1]
    q [heads x head size, hidden]       k, v [kv heads x head size, hidden]
    q_gate [heads x head size, hidden]
    o [hidden, heads x head size]       q_norm, k_norm [head size]          sinks [heads]
    q_norm [heads x head size], k_norm [kv heads x head size] if heads are normalised together
    gate, up [width, hidden]            down [hidden, width]
    shared.gate, shared.up, shared.down: the same for the shared expert
    shared.scale [1, hidden]
    router [experts, hidden]            router_correction, expert_scale [experts]
    router_norm, expert_norm, expert_post_norm, shared_post_norm [hidden]
    experts.gate, experts.up [experts x width, hidden], one expert after another
    experts.down [experts x hidden, width], one expert after another
tensors of a layer with latent attention, instead of q, k and v:
    q_a [q rank, hidden]                q_a_norm [q rank]
    q_nope [heads x nope size, q rank]  q_rope [heads x rope size, q rank]
    (with hidden in place of q rank if queries have no latent vector)
    kv_a [kv rank, hidden]              kv_a_norm [kv rank]
    k_rope [rope size, hidden]
    k_b [heads x nope size, kv rank]    v_b [heads x value size, kv rank]
    o [hidden, heads x value size]
tensors of a layer with linear attention, instead of q, k, v and o:
    delta.q, delta.k [key heads x key size, hidden]
    delta.v, delta.z [value heads x value size, hidden]
    delta.b, delta.a [value heads, hidden]                      (write strength, decay)
    delta.conv_q, delta.conv_k [key heads x key size, taps]
    delta.conv_v [value heads x value size, taps]
    delta.log_rate, delta.decay_bias [value heads]              delta.norm [value size]
    delta.o [hidden, value heads x value size]

A bias has the name of its projection or norm with the suffix ``_bias``, and the size of its
outputs. Rotated features are in split halves: pair p is features p and p + half.
"""

from __future__ import annotations

import math

from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.block_shapes import (
    Shapes,
    attention_shapes,
    expert_shapes,
    feed_forward_shapes,
    latent_attention_shapes,
    linear_attention_shapes,
)
from wse.number_formats import CODINGS, FP8, Coding, fp8_blocks
from wse_mappings.rounding import ceil_div

_ATTENTION = ("q", "k", "v", "q_gate", "o", "q_a", "q_nope", "q_rope", "kv_a", "k_rope")
_DELTA = tuple(f"delta.{name}" for name in ("q", "k", "v", "z", "b", "a", "o"))
_BLOCK = ("gate", "up", "down")
_OF_BLOCK = ("mlp_norm", "post_mlp_norm", "stream_scale", "router", "expert", "shared", *_BLOCK)
_BLOCKS = tuple(f"{prefix}{name}" for prefix in ("", "shared.", "experts.") for name in _BLOCK)
_LINEAR = frozenset((*_ATTENTION, *_DELTA, *_BLOCKS))
"""Names of the linear-layer matrices within a layer. Expert matrices are stacked."""


def tensor_shapes(spec: ModelSpec) -> Shapes:
    """Return the shape of every tensor of a model, keyed by its name in wse.

    Tensors outside the layers come first, then the tensors of each layer.
    """
    hidden = spec.hidden_size
    shapes: Shapes = {"embedding": (spec.vocab_size, hidden)}
    if spec.learned_positions:
        shapes["positions"] = (spec.learned_positions, hidden)
    shapes |= _norm(spec, "final_norm")
    if not spec.tied_embedding:
        shapes["head"] = (spec.vocab_size, hidden)
    if spec.head_bias:
        shapes["head_bias"] = (spec.vocab_size,)
    for index, layer in enumerate(spec.layers):
        shapes |= {f"layers.{index}.{name}": shape for name, shape in layer_shapes(spec, layer).items()}
    return shapes


def in_block(tensor: str) -> bool:
    """Return whether a tensor of a layer belongs to the feed-forward block, not to attention.

    >>> [in_block(name) for name in ("o", "o_bias", "mlp_norm", "router", "down_bias", "shared.up")]
    [False, False, True, True, True, True]
    """
    return tensor.startswith(_OF_BLOCK)


def layer_shapes(spec: ModelSpec, layer: Layer) -> Shapes:
    """Return the shapes of the tensors of one layer, keyed by the name without ``layers.I.``."""
    if layer.linear and spec.linear is not None:
        attention = linear_attention_shapes(spec, spec.linear)
    elif spec.latent is not None:
        attention = latent_attention_shapes(spec, spec.latent)
    else:
        attention = attention_shapes(spec.with_heads_of(layer))
    shapes = _norm(spec, "attention_norm") if spec.has_pre_norms(layer) else {}
    shapes |= attention
    if spec.has_post_norms(layer):
        shapes |= _norm(spec, "post_attention_norm")
    if spec.has_pre_norms(layer):
        shapes |= _norm(spec, "mlp_norm")
    if layer.experts and spec.experts is not None:
        shapes |= expert_shapes(spec, spec.experts)
    else:
        shapes |= feed_forward_shapes(spec, "", spec.ffn_size)
    if spec.has_post_norms(layer):
        shapes |= _norm(spec, "post_mlp_norm")
    if spec.stream_scale:
        shapes["stream_scale"] = (1,)
    return shapes


def parameter_count(spec: ModelSpec) -> int:
    """Return the number of parameters of a model. A tied embedding is counted once."""
    return sum(math.prod(shape) for shape in tensor_shapes(spec).values())


def is_linear(tensor: str) -> bool:
    """Return whether a tensor is the matrix of a linear layer, which can be quantised.

    The tensor "product" is the matrix of a graph that consists of a single op
    (`wse.models.graph.op_graph` with the scope ``product``).

    >>> is_linear("layers.0.down"), is_linear("layers.0.attention_norm"), is_linear("embedding")
    (True, False, False)
    """
    layer, _, name = tensor.partition(".")[2].partition(".")
    return (layer.isdigit() and name in _LINEAR) or tensor == "product"


def coding_of(spec: ModelSpec, tensor: str, weight_type: str) -> Coding | None:
    """Return how a tensor is coded for a weight type, or None if it is not quantised.

    A coding defines how many bits a value has and which values share a scale. If the checkpoint is
    already packed in this type, its own codes and scales are used: FP8 then has one scale per
    block, and matrices in ``Packing.unpacked`` are not quantised.

    Args:
        spec: Specification of the model.
        tensor: Name of the tensor in wse.
        weight_type: Type of the linear layers, as accepted by ``--dtype``.
    """
    coding, packing = CODINGS.get(weight_type), spec.packing
    if coding is None or not is_linear(tensor):
        return None
    if weight_type != packing.method:
        return coding
    name = tensor.split(".", 2)[-1]
    if name in packing.unpacked:
        return None
    return fp8_blocks(packing.run_of(name), packing.block[1]) if weight_type == FP8 else coding


def stored_bytes(spec: ModelSpec, weight_type: str, float_bytes: int) -> int:
    """Return the total size of a model's tensors in bytes, including codes and scales.

    Args:
        spec: Specification of the model.
        weight_type: Type of the linear layers, as accepted by ``--dtype``.
        float_bytes: Bytes per unquantised element.
    """
    tensors = tensor_shapes(spec).items()
    return sum(tensor_bytes(shape, coding_of(spec, name, weight_type), float_bytes) for name, shape in tensors)


def tensor_bytes(shape: tuple[int, ...], coding: Coding | None, float_bytes: int) -> int:
    """Return the size of a tensor in bytes, including the scales if it is quantised.

    Args:
        shape: Shape of the tensor; [out, in] if it has a coding.
        coding: How the values are quantised; None if they are not.
        float_bytes: Bytes per unquantised element.
    """
    if coding is None:
        return math.prod(shape) * float_bytes
    outputs, inputs = shape
    scales = ceil_div(outputs, coding.block) * coding.groups(inputs)
    return coding.code_bytes(inputs, outputs) + scales * coding.scale_bytes(float_bytes)


def _norm(spec: ModelSpec, name: str) -> Shapes:
    """Return the shape of a norm's gain and, if it has one, of its bias, keyed by name."""
    size = (spec.hidden_size,)
    return {name: size, f"{name}_bias": size} if spec.has_norm_bias else {name: size}


def parameters_per_token(spec: ModelSpec, *, input_table: bool = False, head: bool = True) -> int:
    """Return the number of parameters used to compute one token.

    Only the experts selected for the token are counted. Each value of a matrix is used in one
    multiply-add, so with the default arguments, twice the result is about the number of
    floating-point operations per token, excluding attention over the context (Kaplan et al., arXiv
    2001.08361, section 2.1).

    Args:
        spec: Specification of the model.
        input_table: True to count the whole embedding table. By default it is not counted, because
            a token reads only one row of it.
        head: True to count the output head. A table that is tied to the embedding is counted at
            most once.
    """
    total = 0
    for name, shape in tensor_shapes(spec).items():
        values = math.prod(shape)
        if spec.experts is not None and ".experts." in name:
            values = values // spec.experts.count * spec.experts.active
        if name not in ("embedding", "head"):
            total += values
    table_count = max(head, input_table) if spec.tied_embedding else head + input_table
    return total + table_count * spec.vocab_size * spec.hidden_size


def state_bytes(spec: ModelSpec, element_bytes: int) -> int:
    """Return the size of one sequence's states in all layers with linear attention, in bytes.

    Args:
        spec: Specification of the model.
        element_bytes: Bytes per activation.
    """
    return sum(layer_user_bytes(spec, layer, 0, element_bytes) for layer in spec.layers)


def layer_user_bytes(spec: ModelSpec, layer: Layer, tokens: int, element_bytes: int) -> int:
    """Return the size of one sequence's KV cache or state in a layer, in bytes.

    Args:
        spec: Specification of the model.
        layer: The layer.
        tokens: Number of tokens in the cache.
        element_bytes: Bytes per activation.
    """
    if layer.linear and spec.linear is not None:
        return spec.linear.user_bytes(element_bytes)
    return tokens * spec.with_heads_of(layer).cache_features * element_bytes


def cache_bytes(spec: ModelSpec, context: int, element_bytes: int) -> int:
    """Return the size of one sequence's KV caches and states in all layers, in bytes.

    Args:
        spec: Specification of the model.
        context: Number of tokens in the sequence. A layer with a sliding window or attention chunks
            stores no more tokens than its window or chunk spans.
        element_bytes: Bytes per cache element.
    """
    return sum(
        layer_user_bytes(spec, layer, min(context, layer.window or layer.chunk or context), element_bytes)
        for layer in spec.layers
    )


def kv_bytes_per_token(spec: ModelSpec, element_bytes: int) -> int:
    """Return how many bytes one token adds to the KV caches of all layers.

    Layers with a sliding window are counted like full attention, although they discard the token
    later. Layers with linear attention have no cache.
    With latent attention, the values are part of the keys (DeepSeek-V2, arXiv 2405.04434,
    section 2.1.2).

    Args:
        spec: Specification of the model.
        element_bytes: Bytes per cache element.
    """
    return spec.cache_features_of_layers * element_bytes
