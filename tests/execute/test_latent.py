"""Latent attention in its absorbed form: logits are those of a plain decoder that expands keys and values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiled import compile_model
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec
from tiny_run import tiny_session, worst_logit_error

from wse.compiler.options import MESH_GEMM, REPORT, THIN_GEMM
from wse.compiler.search.search import fits
from wse.errors import BadInput, WseBug
from wse.models.configs.rope import plain_rope
from wse.models.spec import Latent, ModelSpec

MESHES = [(1, 1), (3, 3), (4, 5), (5, 2)]
PROMPT, NEW_TOKENS = (5, 3, 200, 17, 88, 41, 9), 6
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
def test_logits_are_those_of_a_plain_decoder(name: str) -> None:
    """With 3 heads a row has several, one, or a part of one. The prompt comes in chunks of 4, 4 and 3 tokens."""
    spec, mesh, wafers = CASES[name]
    worst = worst_logit_error(spec, mesh, chunk=4, wafers=wafers)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


def of_deepseek_v3() -> ModelSpec:
    """The attention of DeepSeek-V3 (its config.json), with dense feed-forward blocks."""
    sizes = Latent(q_rank=1536, kv_rank=512, nope_size=128, rope_size=64, value_size=128)
    spec = latent_spec(heads=128)
    return replace(spec, hidden_size=7168, ffn_size=64, latent=sizes, head_size=576, rope=plain_rope(64, 1e4))


def test_the_cache_holds_a_latent_vector_and_a_rotated_key_a_token() -> None:
    """512 + 64 values in each layer of DeepSeek-V3, where a key and a value of every head would be 40,960.

    Counted on 32 columns, which divide both; every row stores a share of the tokens.
    """
    program = compile_model(of_deepseek_v3(), wafer(3, 32), SOFTWARE, OPTIONS)
    held = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv")
    assert held * 3 * 32 == 2 * OPTIONS.context * (512 + 64) * 2


def test_products_on_the_mesh_are_neither_chosen_nor_taken() -> None:
    spec, machine = latent_spec(), wafer(4, 4, 1 << 20)
    assert compile_model(spec, machine, SOFTWARE, OPTIONS).prefill_name == THIN_GEMM
    asked = replace(OPTIONS, prefill=MESH_GEMM)
    assert not fits(spec, machine, SOFTWARE, asked)
    with pytest.raises(BadInput, match=r"mesh-gemm does not support latent attention, which tiny has: use thin"):
        compile_model(spec, machine, SOFTWARE, asked)
    with pytest.raises(WseBug, match=r"after shard: mesh-gemm does not support latent attention"):
        tiny_session(spec, (4, 4), MESH_GEMM, PROMPT, NEW_TOKENS)
