"""Shapes of the tensors of attention and feed-forward blocks, except for the norms before and after."""

from __future__ import annotations

from wse.models.attention_traits import Latent, LinearAttention
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec

Shapes = dict[str, tuple[int, ...]]


def _projection(name: str, outputs: int, inputs: int, *, bias: bool) -> Shapes:
    """Return the shapes of a matrix and, if it has one, of its bias, keyed by name."""
    return {name: (outputs, inputs)} | ({f"{name}_bias": (outputs,)} if bias else {})


def attention_shapes(spec: ModelSpec) -> Shapes:
    """Return the tensor shapes of standard (non-latent) attention, keyed by name."""
    hidden, queries = spec.hidden_size, spec.query_size
    keys = spec.key_size
    shapes = _projection("q", queries, hidden, bias=spec.qkv_bias)
    for name in ("k",) if spec.keys_as_values else ("k", "v"):
        shapes |= _projection(name, keys, hidden, bias=spec.qkv_bias)
    if spec.attention_gate:
        shapes |= _projection("q_gate", queries, hidden, bias=spec.qkv_bias)
    if spec.has_head_gains:
        spans_heads = spec.head_norm == "rms_all"
        shapes |= {"q_norm": (queries if spans_heads else spec.head_size,)}
        shapes |= {"k_norm": (keys if spans_heads else spec.head_size,)}
    if spec.sinks:
        shapes["sinks"] = (spec.head_count,)
    return shapes | _projection("o", hidden, queries, bias=spec.output_bias)


def linear_attention_shapes(spec: ModelSpec, linear: LinearAttention) -> Shapes:
    """Return the tensor shapes of linear attention, keyed by name."""
    keys, values = linear.key_heads * linear.key_size, linear.value_heads * linear.value_size
    outputs = {"q": keys, "k": keys, "v": values, "z": values, "b": linear.value_heads, "a": linear.value_heads}
    return {
        **{f"delta.{name}": (count, spec.hidden_size) for name, count in outputs.items()},
        **{f"delta.conv_{name}": (outputs[name], linear.taps) for name in "qkv"},
        "delta.log_rate": (linear.value_heads,),
        "delta.decay_bias": (linear.value_heads,),
        "delta.norm": (linear.value_size,),
        "delta.o": (spec.hidden_size, values),
    }


def latent_attention_shapes(spec: ModelSpec, latent: Latent) -> Shapes:
    """Return the tensor shapes of latent attention, keyed by name."""
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


def feed_forward_shapes(spec: ModelSpec, prefix: str, width: int) -> Shapes:
    """Return the tensor shapes of a dense feed-forward block, keyed by name.

    Args:
        spec: Specification of the model.
        prefix: Prefix of the names.
        width: Number of features inside the block.
    """
    shapes = _projection(f"{prefix}gate", width, spec.hidden_size, bias=spec.ffn_bias) if spec.gated else {}
    shapes |= _projection(f"{prefix}up", width, spec.hidden_size, bias=spec.ffn_bias)
    return shapes | _projection(f"{prefix}down", spec.hidden_size, width, bias=spec.ffn_bias)


def expert_shapes(spec: ModelSpec, experts: Experts) -> Shapes:
    """Return the tensor shapes of a mixture of experts, keyed by name.

    The shared expert's tensors, if any, are included.
    """
    hidden, count, width = spec.hidden_size, experts.count, experts.ffn_size
    shapes = _projection("router", count, hidden, bias=experts.router_bias)
    if experts.correction:
        shapes["router_correction"] = (count,)
    for name in ("experts.gate", "experts.up"):
        shapes |= _projection(name, count * width, hidden, bias=spec.ffn_bias)
    shapes |= _projection("experts.down", count * hidden, width, bias=spec.ffn_bias)
    if experts.shared_size:
        shapes |= feed_forward_shapes(spec, "shared.", experts.shared_size)
    if experts.shared_gate:
        shapes["shared.scale"] = (1, hidden)
    if experts.expert_scale:
        shapes["expert_scale"] = (count,)
    if experts.separate_norms:
        shapes |= dict.fromkeys(("router_norm", "expert_norm", "expert_post_norm", "shared_post_norm"), (hidden,))
    return shapes
