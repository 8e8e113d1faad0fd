"""Small models for testing the timing models, one for each type of attention, norm and block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from wse.models.configs.rope import plain_rope
from wse.models.spec import Experts, Latent, ModelSpec

EXPERTS: Final = 8


def _with_head_norms(spec: ModelSpec) -> ModelSpec:
    return replace(spec, head_norm="rms", sinks=True)


def _with_layer_norms(spec: ModelSpec) -> ModelSpec:
    return replace(spec, norm="layer", qkv_bias=True, output_bias=True, ffn_bias=True, gated=False)


def _with_latent_attention(spec: ModelSpec) -> ModelSpec:
    size = spec.head_size
    latent = Latent(
        q_rank=spec.hidden_size // 2, kv_rank=2 * size, nope_size=size, rope_size=size // 2, value_size=size
    )
    cached, rope = latent.kv_rank + latent.rope_size, plain_rope(latent.rope_size, 1e4)
    return replace(spec, latent=latent, rope=rope, kv_head_count=1, head_size=cached)


def _with_experts(spec: ModelSpec) -> ModelSpec:
    experts = Experts(
        count=EXPERTS, active=2, ffn_size=spec.ffn_size // 4, shared_size=spec.ffn_size // 4, scoring="sigmoid"
    )
    return _set_experts(spec, replace(experts, correction=True))


def _with_softmax_experts(spec: ModelSpec) -> ModelSpec:
    return _set_experts(spec, Experts(count=EXPERTS, active=3, ffn_size=spec.ffn_size // 4, router_bias=True))


def _set_experts(spec: ModelSpec, experts: Experts) -> ModelSpec:
    """Return the model with every feed-forward block replaced by a mixture of experts."""
    return replace(spec, layers=tuple(replace(layer, experts=True) for layer in spec.layers), experts=experts)


KINDS: Final[Mapping[str, Callable[[ModelSpec], ModelSpec]]] = {
    "plain": lambda spec: spec,
    "norms of heads, sinks": _with_head_norms,
    "LayerNorm, biases": _with_layer_norms,
    "latent attention": _with_latent_attention,
    "experts and a block beside them": _with_experts,
    "experts chosen by softmax": _with_softmax_experts,
}
"""Functions that turn a plain model into another kind of model, keyed by the kind's name."""
