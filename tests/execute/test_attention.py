"""Tests of attention of all kinds, and of prefill with its own weights: logits equal those of the plain decoder."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiled import compile_model
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, linear_spec, tiny_spec
from tiny_run import tiny_session, worst_logit_error
from trait_specs import POSITIONS, TRAITS, norms_spec

from wse.compiler.options import BASELINE, MESH_GEMM, MESH_GEMM_OWN, OPTIMIZED, REPORT, THIN_GEMM
from wse.compiler.search.feasibility import fits
from wse.errors import BadInput, WseBug
from wse.models.attention_traits import HeadShape, Latent, PositionScale, Rope
from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec

PREFILL_CASES = [((3, 3), MESH_GEMM, 6), ((3, 3), MESH_GEMM_OWN, None), ((4, 5), THIN_GEMM, 6)]
"""Mesh, prefill strategy and tokens per chunk. All cases decode in the same way."""
PARTIAL = Rope(frequencies=plain_rope(4, 1e4).frequencies, multiplier=1.25)
ATTENTION_TRAITS: dict[str, dict[str, Any]] = {
    "part of a head rotates": {"rope": PARTIAL, "head_size": 7},
    "some layers do not rotate": {"layers": (Layer(), Layer(rotary=False)), "rope": PARTIAL},
    "nothing rotates": {"rope": None, "head_size": 5},
    "a window": {"layers": (Layer(window=4), Layer())},
    "chunks": {"layers": (Layer(chunk=4), Layer(chunk=5, window=3))},
    "capped scores": {"score_cap": 0.5},
    "sinks": {"sinks": True},
    "norm of heads": {"head_norm": "rms", "rope": PARTIAL, "layers": (Layer(), Layer(rotary=False))},
    "norm of all heads": {"head_norm": "rms_all", "norm_unit_offset": True},
    "norm of heads without gain": {"head_norm": "l2", "layers": (Layer(), Layer(rotary=False))},
    "gated results": {"attention_gate": True, "rope": PARTIAL},
    "gated results, norm of heads, biases": {"attention_gate": True, "head_norm": "rms", "qkv_bias": True},
    "biases": {"qkv_bias": True, "output_bias": True, "ffn_bias": True},
    "other frequencies in windows": {
        "layers": (Layer(window=4), Layer()),
        "window_rope": Rope(frequencies=plain_rope(6, 1e2).frequencies, multiplier=1.5),
    },
    "other heads in windows": {
        "layers": (Layer(window=4), Layer()),
        "window_heads": HeadShape(kv_count=2, size=10),
        "window_rope": plain_rope(10, 1e2),
        "head_norm": "rms",
    },
    "values are keys": {"keys_as_values": True, "value_norm": True, "head_norm": "rms"},
    "values are keys, with biases": {"keys_as_values": True, "qkv_bias": True},
    "gated results, values are keys": {"keys_as_values": True, "attention_gate": True},
    "norm of values": {"value_norm": True},
    "queries scaled by position": {
        "layers": (Layer(), Layer(rotary=False)),
        "position_scale": PositionScale(coefficient=0.3, floor_tokens=4),
    },
    "rotated queries scaled by position": {
        "layers": (Layer(), Layer(rotary=False)),
        "position_scale": PositionScale(coefficient=0.3, floor_tokens=4, first=0, rotary=True),
    },
}
TRAITS_OF_SPECS: dict[str, dict[str, Any]] = ATTENTION_TRAITS | {
    "norms after blocks": {"post_norms": True, "norm_unit_offset": True, "head_norm": "rms"},
    "norms only after blocks": {"pre_norms": False, "post_norms": True, "head_norm": "rms_all"},
    "norms after the blocks of one layer": {"layers": (Layer(pre_norms=False, post_norms=True), Layer())},
    "layer norm": {"norm": "layer", "post_norms": True},
    "layer norm after the blocks of one layer": {
        "norm": "layer",
        "layers": (Layer(), Layer(pre_norms=False, post_norms=True)),
    },
    "layer norm without bias": {"norm": "layer", "norm_bias": False, "tied_embedding": False},
    "parallel blocks": {"parallel_blocks": True, "residual_scale": 0.7},
    "parallel blocks with layer norm": {"parallel_blocks": True, "norm": "layer", "norm_bias": False},
    "no gate": {"gated": False, "activation": "gelu_tanh", "ffn_bias": True},
    "gelu": {"activation": "gelu"},
    "clamped silu": {"activation": "clamped_silu", "activation_limit": 0.5},
    "scaled embeddings": {"embedding_scale": 8.5},
    "learned positions": {"learned_positions": 40, "rope": None, "embedding_scale": 3.0},
    "scaled blocks and logits": {"residual_scale": 0.22, "logit_scale": 0.125},
    "scaled and capped logits": {"logit_scale": 0.5, "logit_cap": 0.5},
    "head with bias": {"head_bias": True, "logit_scale": 0.5},
    "relu": {"activation": "relu"},
    "square of relu, no gate": {"activation": "relu2", "gated": False},
    "scaled layers": {"stream_scale": True},
    "scaled layers, norms after blocks": {"stream_scale": True, "post_norms": True},
    "capped logits": {"logit_cap": 0.5},
}


def spec_with(trait: str, **sizes: int) -> ModelSpec:
    """Return the tiny model with a trait of TRAITS_OF_SPECS and some sizes changed."""
    return replace(tiny_spec(hidden=72, vocab=259, **sizes), **TRAITS_OF_SPECS[trait])


@pytest.mark.parametrize("trait", TRAITS_OF_SPECS)
def test_trait_logits_are_those_of_the_plain_decoder(trait: str) -> None:
    max_error = worst_logit_error(spec_with(trait), (3, 3), MESH_GEMM, chunk=6)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize("trait", ATTENTION_TRAITS)
def test_trait_logits_are_right_with_one_kv_head_over_all_columns(trait: str) -> None:
    """Prefill with its own weights has a separate lowering for models with one kv head."""
    max_error = worst_logit_error(spec_with(trait, heads=2, kv_heads=1), (3, 3), MESH_GEMM_OWN)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize(("mesh", "prefill", "chunk"), PREFILL_CASES)
def test_link_words_are_those_of_the_fabric_for_all_traits(
    mesh: tuple[int, int], prefill: str, chunk: int | None
) -> None:
    """The model has head norms, LayerNorm moments, vectors that are copied from rows to columns, and positions."""
    traits = {"norm": "layer", "post_norms": True, "head_norm": "rms", "output_bias": True, "learned_positions": 40}
    spec = replace(tiny_spec(hidden=72, vocab=259), ffn_bias=True, **traits)
    prompt, new_tokens = list(range(3, 14)), 3
    run = tiny_session(spec, mesh, prefill, prompt, new_tokens, chunk=chunk)
    run.greedy(new_tokens)
    run.check_links(new_tokens - 1)


MESH, COLUMNS = (4, 9), 4
SCHEDULES = ((0, BASELINE), (2, OPTIMIZED))
"""Offset and schedule. The offset selects the number of columns, so each model is tested with two of the numbers."""
PROMPT = (5, 3, 200, 17, 88, 41, 9)
SPECS: dict[str, ModelSpec] = {
    "heads": tiny_spec(),
    "fewer columns than heads": tiny_spec(heads=8, kv_heads=8),
    "latent": latent_spec(),
    "latent without a source": latent_spec(q_rank=0),
    "linear": linear_spec(),
    "window, chunks, sinks, caps": TRAITS,
    "layer norm, positions": POSITIONS,
    "norms of heads and blocks": norms_spec(),
}


@pytest.mark.parametrize(
    ("kind", "schedule", "columns"),
    [(kind, schedule, (1, 3, COLUMNS, 8)[(i + j) % 4]) for i, kind in enumerate(SPECS) for j, schedule in SCHEDULES],
)
def test_attention_columns_logits_are_those_of_the_plain_decoder(kind: str, schedule: str, columns: int) -> None:
    """The prompt is split into chunks of 4, 4 and 3 tokens."""
    max_error = worst_logit_error(SPECS[kind], MESH, chunk=4, schedule=schedule, attention_cols=columns)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


def test_attention_columns_are_limited_to_those_of_the_region() -> None:
    more_columns, all_columns = (
        tiny_session(SPECS["latent"], MESH, THIN_GEMM, PROMPT, 4, attention_cols=columns).program for columns in (64, 0)
    )
    assert more_columns.digest() == all_columns.digest()


MESHES = [(1, 1), (3, 3), (4, 5), (5, 2)]
LATENT_PROMPT, NEW_TOKENS = (5, 3, 200, 17, 88, 41, 9), 6
OPTIONS = region_options(dtype="float16", context=96, prompt_tokens=(5,), capacity=REPORT)
BIASES = {"qkv_bias": True, "output_bias": True}
CASES: dict[str, tuple[ModelSpec, tuple[int, int], int]] = {
    **{f"{rows}x{cols}": (latent_spec(), (rows, cols), 1) for rows, cols in MESHES},
    **{f"{rows}x{cols} without a source": (latent_spec(q_rank=0), (rows, cols), 1) for rows, cols in MESHES},
    "one head": (latent_spec(heads=1), (4, 3), 1),
    "five heads on four rows": (latent_spec(heads=5), (4, 3), 1),
    "biases": (replace(latent_spec(), **BIASES), (4, 3), 1),
    "biases without a source": (replace(latent_spec(q_rank=0), **BIASES), (4, 3), 1),
    "two wafers": (latent_spec(), (3, 4), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_latent_logits_are_those_of_the_plain_decoder(name: str) -> None:
    """With 3 heads, a row has several heads, one head or a part of one.

    The prompt is split into chunks of 4, 4 and 3 tokens.
    """
    spec, mesh, wafers = CASES[name]
    max_error = worst_logit_error(spec, mesh, chunk=4, wafers=wafers)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


def deepseek_v3_attention_spec() -> ModelSpec:
    """Return a model with the attention sizes of DeepSeek-V3 (from its config.json) and dense feed-forward blocks."""
    sizes = Latent(q_rank=1536, kv_rank=512, nope_size=128, rope_size=64, value_size=128)
    spec = latent_spec(heads=128)
    return replace(spec, hidden_size=7168, ffn_size=64, latent=sizes, head_size=576, rope=plain_rope(64, 1e4))


def test_latent_cache_stores_a_latent_vector_and_a_rotated_key_per_token() -> None:
    """Each layer of DeepSeek-V3 stores 512 + 64 values per token; keys and values of every head would be 40,960.

    The bytes are counted on 32 columns because 32 divides 512 and 64. The tokens are divided among the three rows.
    """
    program = compile_model(deepseek_v3_attention_spec(), wafer(3, 32), SOFTWARE, OPTIONS)
    cache_bytes = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv")
    assert cache_bytes * 3 * 32 == 2 * OPTIONS.context * (512 + 64) * 2


def test_latent_attention_refuses_mesh_gemm() -> None:
    spec, machine = latent_spec(), wafer(4, 4, 1 << 20)
    assert compile_model(spec, machine, SOFTWARE, OPTIONS).prefill_name == THIN_GEMM
    mesh_gemm_options = replace(OPTIONS, prefill=MESH_GEMM)
    assert not fits(spec, machine, SOFTWARE, mesh_gemm_options)
    with pytest.raises(BadInput, match=r"mesh-gemm does not support latent attention, which tiny has: use thin"):
        compile_model(spec, machine, SOFTWARE, mesh_gemm_options)
    with pytest.raises(WseBug, match=r"after shard: mesh-gemm does not support latent attention"):
        tiny_session(spec, (4, 4), MESH_GEMM, LATENT_PROMPT, NEW_TOKENS)


HEADS = {
    "one head": {"heads": 1, "kv_heads": 1, "head_size": 10},
    "one head as wide as the vector": {"heads": 1, "kv_heads": 1, "head_size": 40},
    "three heads share a key": {"heads": 3, "kv_heads": 1, "head_size": 6},
    "several heads": {"heads": 6, "kv_heads": 2, "head_size": 6},
}
PROMPTS = [(1, 11, 11), (6, 2, 2), (3, 23, 6)]
"""Rows of the square mesh, tokens of the prompt, and tokens per chunk.

The cases are one PE, fewer tokens than rows, and several chunks.
"""


@pytest.mark.parametrize(
    ("heads", "side", "prompt", "chunk"),
    [
        (heads, *sizes)
        for heads in HEADS
        for sizes in (PROMPTS if heads in ("one head", "several heads") else PROMPTS[-1:])
    ],
)
def test_own_weights_logits_are_those_of_the_plain_decoder(heads: str, side: int, prompt: int, chunk: int) -> None:
    spec = tiny_spec(**HEADS[heads])
    max_error = worst_logit_error(spec, (side, side), MESH_GEMM_OWN, prompt=prompt, chunk=chunk)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize(("heads", "side"), [("one head", 6), ("several heads", 3)])
def test_own_weights_link_words_are_those_of_the_fabric_and_tiles_return(heads: str, side: int) -> None:
    prompt = np.random.default_rng(23).integers(3, 60, 23).tolist()
    run = tiny_session(tiny_spec(**HEADS[heads]), (side, side), MESH_GEMM_OWN, prompt, 4, chunk=6)

    def stored_tiles() -> list[bytes]:
        read = run.engine.arenas[0].read
        return [read("float32", t.address, t.outer * t.inner).tobytes() for t in run.program.tiles]

    before = stored_tiles()
    run.greedy(4)
    assert stored_tiles() == before
    run.check_links(3)
