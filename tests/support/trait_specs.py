"""Tiny models with rare traits of attention, norms and positions."""

from dataclasses import replace

from tiny_model import tiny_spec

from wse.models.attention_traits import PositionScale
from wse.models.spec import Layer, ModelSpec

TRAITS = replace(
    tiny_spec(),
    layers=(Layer(window=4), Layer(chunk=5, rotary=False)),
    position_scale=PositionScale(coefficient=0.3, floor_tokens=4),
    sinks=True,
    score_cap=0.5,
)
POSITIONS = replace(
    tiny_spec(head_size=5), norm="layer", learned_positions=64, rope=None, qkv_bias=True, gated=False, ffn_bias=True
)


def norms_spec(**sizes: int) -> ModelSpec:
    """Return a model with norms on heads and after blocks, gains stored minus 1, and capped logits."""
    return replace(tiny_spec(**sizes), head_norm="rms", logit_cap=3.0, post_norms=True, norm_unit_offset=True)
