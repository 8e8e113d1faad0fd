"""Traits of attention and of the blocks around it: logits are those of the plain decoder on every mesh and product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tiny_model import tiny_spec
from tiny_run import tiny_session, worst_logit_error

from wse.compiler.options import MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM
from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec, PositionScale, Rope

WAYS = [((3, 3), MESH_GEMM, 6), ((3, 3), MESH_GEMM_OWN, None), ((4, 5), THIN_GEMM, 6)]
"""Mesh, product of prefill and tokens at once; all decode alike."""

PARTIAL = Rope(frequencies=plain_rope(4, 1e4).frequencies, multiplier=1.25)
TRAITS: dict[str, dict[str, Any]] = {
    "part of a head rotates": {"rope": PARTIAL, "head_size": 7},
    "some layers do not rotate": {"layers": (Layer(), Layer(rotary=False)), "rope": PARTIAL},
    "nothing rotates": {"rope": None, "head_size": 5},
    "a window": {"layers": (Layer(window=4), Layer())},
    "chunks": {"layers": (Layer(chunk=4), Layer(chunk=5, window=3))},
    "capped scores": {"score_cap": 0.5},
    "sinks": {"sinks": True},
    "norm of heads": {"head_norm": "rms", "rope": PARTIAL, "layers": (Layer(), Layer(rotary=False))},
    "norm of heads without gain": {"head_norm": "l2", "layers": (Layer(), Layer(rotary=False))},
    "biases": {"qkv_bias": True, "output_bias": True, "ffn_bias": True},
    "norms after blocks": {"post_norms": True, "norm_unit_offset": True, "head_norm": "rms"},
    "layer norm": {"norm": "layer", "post_norms": True},
    "no gate": {"gated": False, "activation": "gelu_tanh", "ffn_bias": True},
    "gelu": {"activation": "gelu"},
    "clamped silu": {"activation": "clamped_silu", "activation_limit": 0.5},
    "scaled embeddings": {"embedding_scale": 8.5},
    "learned positions": {"learned_positions": 40, "rope": None, "embedding_scale": 3.0},
    "capped logits": {"logit_cap": 0.5},
    "queries scaled by position": {
        "layers": (Layer(), Layer(rotary=False)),
        "position_scale": PositionScale(coefficient=0.3, floor_tokens=4),
    },
}


def spec_with(trait: str, **sizes: int) -> ModelSpec:
    return replace(tiny_spec(hidden=72, vocab=259, **sizes), **TRAITS[trait])


@pytest.mark.parametrize(
    ("mesh", "prefill", "chunk"), [WAYS[0], *(pytest.param(*way, marks=pytest.mark.slow) for way in WAYS[1:])]
)
@pytest.mark.parametrize("trait", TRAITS)
def test_logits_are_those_of_a_plain_decoder(
    trait: str, mesh: tuple[int, int], prefill: str, chunk: int | None
) -> None:
    worst = worst_logit_error(spec_with(trait), mesh, prefill, chunk=chunk)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize("trait", TRAITS)
def test_logits_are_right_where_one_head_is_spread_over_all_columns(trait: str) -> None:
    """The lowering of its own that prefill with its own weights has for one kv head."""
    worst = worst_logit_error(spec_with(trait, heads=2, kv_heads=1), (3, 3), MESH_GEMM_OWN)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize(("mesh", "prefill", "chunk"), WAYS)
def test_words_on_links_are_the_fabrics_for_all_traits(mesh: tuple[int, int], prefill: str, chunk: int | None) -> None:
    """Sums of heads in their groups, moments of LayerNorm, vectors that come from rows to columns, positions."""
    traits = {"norm": "layer", "post_norms": True, "head_norm": "rms", "output_bias": True, "learned_positions": 40}
    spec = replace(tiny_spec(hidden=72, vocab=259), ffn_bias=True, **traits)
    prompt, new_tokens = list(range(3, 14)), 3
    run = tiny_session(spec, mesh, prefill, prompt, new_tokens, chunk=chunk)
    run.greedy(new_tokens)
    run.check_links(new_tokens - 1)
