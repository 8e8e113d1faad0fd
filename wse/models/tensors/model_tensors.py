"""Our names and shapes of all trained tensors of a model, and counts that follow from them.

Matrices are [out, in], vectors [size].

embedding, head [vocab, hidden]         positions [learned positions, hidden]         final_norm [hidden]
of a layer, behind ``layers.I.``:
    attention_norm, mlp_norm, post_attention_norm, post_mlp_norm [hidden]
    q [heads x head size, hidden]       k, v [kv heads x head size, hidden]           o [hidden, heads x head size]
    q_norm, k_norm [head size]          sinks [heads]
    gate, up [width, hidden]            down [hidden, width]                          shared.gate, .up, .down alike
    router [experts, hidden]            router_correction [experts]
    experts.gate, .up [experts x width, hidden] and experts.down [experts x hidden, width], one expert after another
of a layer with latent attention instead of q, k and v:
    q_a [q rank, hidden]                q_a_norm [q rank]                             kv_a_norm [kv rank]
    q_nope [heads x nope size, q rank]  q_rope [heads x rope size, q rank]            (rank: hidden where q_rank is 0)
    kv_a [kv rank, hidden]              k_rope [rope size, hidden]
    k_b [heads x nope size, kv rank]    v_b [heads x value size, kv rank]             o [hidden, heads x value size]

A trained vector that is added has the name of its projection or norm with ``_bias``, and the projection's outputs.
Rotated features stand in split halves: pair p is features p and p + half.
"""

from __future__ import annotations

import math

from wse.models.spec import Experts, Latent, Layer, ModelSpec
from wse.number_formats import CODINGS, FP8, Coding, fp8_blocks

Shapes = dict[str, tuple[int, ...]]

_ATTENTION = ("q", "k", "v", "o", "q_a", "q_nope", "q_rope", "kv_a", "k_rope")
_BLOCK = ("gate", "up", "down")
_OF_BLOCK = ("mlp_norm", "post_mlp_norm", "router", "experts.", "shared.", *_BLOCK)
_LINEAR = frozenset((*_ATTENTION, *(f"{prefix}{name}" for prefix in ("", "shared.", "experts.") for name in _BLOCK)))
"""Matrices of linear layers; those of experts are stacked."""


def tensor_shapes(spec: ModelSpec) -> Shapes:
    """Return the shape of every tensor of the model by name: tables first, then layer by layer."""
    hidden = spec.hidden_size
    shapes: Shapes = {"embedding": (spec.vocab_size, hidden)}
    if spec.learned_positions:
        shapes["positions"] = (spec.learned_positions, hidden)
    shapes |= _norm(spec, "final_norm")
    if not spec.tied_embedding:
        shapes["head"] = (spec.vocab_size, hidden)
    for index, layer in enumerate(spec.layers):
        shapes |= {f"layers.{index}.{name}": shape for name, shape in layer_shapes(spec, layer).items()}
    return shapes


def in_block(tensor: str) -> bool:
    """Return whether a tensor of a layer belongs to its feed-forward block rather than to attention.

    >>> [name for name in ("mlp_norm", "o", "o_bias", "router", "down_bias", "shared.up") if in_block(name)]
    ['mlp_norm', 'router', 'down_bias', 'shared.up']
    """
    return tensor.startswith(_OF_BLOCK)


def layer_shapes(spec: ModelSpec, layer: Layer) -> Shapes:
    """Return the shapes of the tensors of one layer, named without ``layers.I.``."""
    attention = _heads(spec) if spec.latent is None else _latent(spec, spec.latent)
    shapes = _norm(spec, "attention_norm") | attention
    if spec.post_norms:
        shapes |= _norm(spec, "post_attention_norm")
    shapes |= _norm(spec, "mlp_norm")
    if layer.experts and spec.experts is not None:
        shapes |= _experts(spec, spec.experts)
    else:
        shapes |= _dense(spec, "", spec.ffn_size)
    if spec.post_norms:
        shapes |= _norm(spec, "post_mlp_norm")
    return shapes


def parameter_count(spec: ModelSpec) -> int:
    """Return the number of values of all tensors, a tied embedding counted once."""
    return sum(math.prod(shape) for shape in tensor_shapes(spec).values())


def is_linear(tensor: str) -> bool:
    """Return whether a canonical tensor is the matrix of a linear layer, to which codings apply.

    >>> is_linear("layers.0.down"), is_linear("layers.0.attention_norm"), is_linear("embedding")
    (True, False, False)
    """
    where, _, name = tensor.partition(".")[2].partition(".")
    return (where.isdigit() and name in _LINEAR) or tensor == "product"


def coding_of(spec: ModelSpec, tensor: str, weight_type: str) -> Coding | None:
    """Return the coding of a tensor for a weight type; None where it is stored as plain numbers.

    In the type that a checkpoint is packed in, its own codes and scales are used: FP8 has a scale for each block, and
    matrices that the checkpoint does not pack (``Packing.unpacked``) stay plain numbers.
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
    """Return the bytes of all tensors of a model stored as ``weight_type``, codes and scales included.

    ``float_bytes`` are those of an element of what is not quantised.
    """
    tensors = tensor_shapes(spec).items()
    return sum(tensor_bytes(shape, coding_of(spec, name, weight_type), float_bytes) for name, shape in tensors)


def tensor_bytes(shape: tuple[int, ...], coding: Coding | None, float_bytes: int) -> int:
    """Return the bytes of a tensor's values, or of its codes and scales."""
    if coding is None:
        return math.prod(shape) * float_bytes
    outputs, inputs = shape
    scales = -(-outputs // coding.block) * coding.groups(inputs)
    return coding.code_bytes(inputs, outputs) + scales * coding.scale_bytes(float_bytes)


def _norm(spec: ModelSpec, name: str) -> Shapes:
    size = (spec.hidden_size,)
    return {name: size, f"{name}_bias": size} if spec.norm == "layer" else {name: size}


def _projection(name: str, outputs: int, inputs: int, *, bias: bool) -> Shapes:
    return {name: (outputs, inputs)} | ({f"{name}_bias": (outputs,)} if bias else {})


def _heads(spec: ModelSpec) -> Shapes:
    hidden, queries = spec.hidden_size, spec.head_count * spec.head_size
    keys = spec.kv_head_count * spec.head_size
    shapes = _projection("q", queries, hidden, bias=spec.qkv_bias)
    for name in ("k", "v"):
        shapes |= _projection(name, keys, hidden, bias=spec.qkv_bias)
    if spec.head_norm == "rms":
        shapes |= {"q_norm": (spec.head_size,), "k_norm": (spec.head_size,)}
    if spec.sinks:
        shapes["sinks"] = (spec.head_count,)
    return shapes | _projection("o", hidden, queries, bias=spec.output_bias)


def _latent(spec: ModelSpec, latent: Latent) -> Shapes:
    hidden, heads = spec.hidden_size, spec.head_count
    shapes: Shapes = {}
    if latent.q_rank:
        shapes |= _projection("q_a", latent.q_rank, hidden, bias=spec.qkv_bias) | {"q_a_norm": (latent.q_rank,)}
    source = latent.q_rank or hidden
    return shapes | {
        "q_nope": (heads * latent.nope_size, source),
        "q_rope": (heads * latent.rope_size, source),
        **_projection("kv_a", latent.kv_rank, hidden, bias=spec.qkv_bias),
        **_projection("k_rope", latent.rope_size, hidden, bias=spec.qkv_bias),
        "kv_a_norm": (latent.kv_rank,),
        "k_b": (heads * latent.nope_size, latent.kv_rank),
        "v_b": (heads * latent.value_size, latent.kv_rank),
        **_projection("o", hidden, heads * latent.value_size, bias=spec.output_bias),
    }


def _dense(spec: ModelSpec, prefix: str, width: int) -> Shapes:
    shapes = _projection(f"{prefix}gate", width, spec.hidden_size, bias=spec.ffn_bias) if spec.gated else {}
    shapes |= _projection(f"{prefix}up", width, spec.hidden_size, bias=spec.ffn_bias)
    return shapes | _projection(f"{prefix}down", spec.hidden_size, width, bias=spec.ffn_bias)


def _experts(spec: ModelSpec, experts: Experts) -> Shapes:
    hidden, count, width = spec.hidden_size, experts.count, experts.ffn_size
    shapes = _projection("router", count, hidden, bias=experts.router_bias)
    if experts.correction:
        shapes["router_correction"] = (count,)
    for name in ("experts.gate", "experts.up"):
        shapes |= _projection(name, count * width, hidden, bias=spec.ffn_bias)
    shapes |= _projection("experts.down", count * hidden, width, bias=spec.ffn_bias)
    if experts.shared_size:
        shapes |= _dense(spec, "shared.", experts.shared_size)
    return shapes


def parameters_per_token(spec: ModelSpec, *, input_table: bool = False, head: bool = True) -> int:
    """Return the parameters that one token uses: of its experts only the active ones.

    ``head``: with the output head. ``input_table``: with the whole table of embeddings, of which a token reads one row.
    A table that is both counts once. Each value of a matrix is one multiply-add, so twice the default is about the
    arithmetic of a token in floating-point operations, apart from attention over its context (Kaplan et al.,
    arXiv 2001.08361, section 2.1).
    """
    total = 0
    for name, shape in tensor_shapes(spec).items():
        values = math.prod(shape)
        if spec.experts is not None and ".experts." in name:
            values = values // spec.experts.count * spec.experts.active
        if name not in ("embedding", "head"):
            total += values
    tables = max(head, input_table) if spec.tied_embedding else head + input_table
    return total + tables * spec.vocab_size * spec.hidden_size


def cache_bytes(spec: ModelSpec, context: int, element_bytes: int) -> int:
    """Return the bytes of one sequence's KV cache, limited by the windows of layers."""
    of_layer = kv_bytes_per_token(spec, element_bytes) // spec.layer_count
    return sum(min(context, layer.window or layer.chunk or context) * of_layer for layer in spec.layers)


def kv_bytes_per_token(spec: ModelSpec, element_bytes: int) -> int:
    """Return the bytes that the caches of all layers need per token.

    As if every layer kept every token: a layer with a window forgets it later. With latent attention the values are
    part of the keys (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).
    """
    return spec.layer_count * spec.cache_features * element_bytes
