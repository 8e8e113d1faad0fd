"""Latent attention in its absorbed form: logits are those of a plain decoder that expands keys and values.

Both timing readers see the same steps: words on links are those that execution moves, and what the reference counts is
near to what the fabric model says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, Session, wafer
from tiny_model import latent_spec
from tiny_run import tiny_session, worst_logit_error

from wse.backends.wavelet.phase import phase_run
from wse.compiler.options import MESH_GEMM, REPORT, THIN_GEMM, Options
from wse.compiler.search.search import compile_model, fits
from wse.errors import BadInput, WseBug
from wse.models.configs.rope import plain_rope
from wse.models.spec import Latent, ModelSpec
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type

MESHES = [(1, 1), (3, 3), (4, 5), (5, 2)]
PROMPT, NEW_TOKENS = (5, 3, 200, 17, 88, 41, 9), 6
OPTIONS = Options(
    mapping="region", wafers=1, dtype="float16", accumulate="float32", context=96, prompt_tokens=(5,), capacity=REPORT
)


@pytest.mark.parametrize("q_rank", [11, 0])
@pytest.mark.parametrize("mesh", MESHES, ids=lambda m: f"{m[0]}x{m[1]}")
def test_logits_are_those_of_a_plain_decoder(mesh: tuple[int, int], q_rank: int) -> None:
    """With 3 heads a row has several, one, or a part of one. The prompt comes in chunks of 4, 4 and 3 tokens."""
    worst = worst_logit_error(latent_spec(q_rank=q_rank), mesh, chunk=4)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize("heads", [1, 5])
def test_heads_that_rows_do_not_divide(heads: int) -> None:
    worst = worst_logit_error(latent_spec(heads=heads), (4, 3))
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize("q_rank", [11, 0])
def test_biases(q_rank: int) -> None:
    spec = replace(latent_spec(q_rank=q_rank), qkv_bias=True, output_bias=True)
    worst = worst_logit_error(spec, (4, 3), chunk=4)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


def test_layers_on_two_wafers() -> None:
    worst = worst_logit_error(latent_spec(), (3, 4), chunk=6, wafers=2)
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


def run() -> Session:
    session = tiny_session(latent_spec(), (4, 5), THIN_GEMM, PROMPT, NEW_TOKENS, chunk=4)
    session.greedy(NEW_TOKENS)
    return session


def test_words_on_every_link_are_those_that_execution_moves() -> None:
    session = run()
    fabric = session.fabric()
    costs = [fabric.prefill_cost(i) for i in range(len(session.program.prefill))]
    costs += [fabric.decode_cost(len(PROMPT) + i) for i in range(NEW_TOKENS - 1)]
    assert np.array_equal(sum(cost.links for cost in costs), session.engine.link_words())


def test_wavelets_take_the_cycles_and_the_links_that_the_fast_model_says() -> None:
    """Kernels exactly, all else within the fabric model's tolerance."""
    session = run()
    program = session.program
    cost = session.fabric().decode_cost(len(PROMPT))
    ran = phase_run(program, program.decode, [len(PROMPT)], session.machine, SOFTWARE)
    np.testing.assert_array_equal(ran.links, cost.links)
    steps = program.decode.steps
    alone = steps.overlap < 0
    kernels = (steps.kind == StepKind.COMPUTE) & alone
    np.testing.assert_array_equal(ran.step_cycles[kernels], cost.by_cause.sum(axis=1)[kernels])
    moving = is_of_type(steps, AlongLine) & alone
    fast, counted = cost.by_cause.sum(axis=1)[moving].sum(), ran.step_cycles[moving].sum()
    assert abs(fast - counted) <= 0.05 * counted, f"wavelets {counted}, fast {fast:.0f}"


def test_products_on_the_mesh_are_neither_chosen_nor_taken() -> None:
    spec, machine = latent_spec(), wafer(4, 4, 1 << 20)
    assert compile_model(spec, machine, SOFTWARE, OPTIONS).prefill_name == THIN_GEMM
    asked = replace(OPTIONS, prefill=MESH_GEMM)
    assert not fits(spec, machine, SOFTWARE, asked)
    with pytest.raises(BadInput, match=r"mesh-gemm does not support latent attention, which tiny has: use thin"):
        compile_model(spec, machine, SOFTWARE, asked)
    with pytest.raises(WseBug, match=r"after shard: mesh-gemm does not support latent attention"):
        tiny_session(spec, (4, 4), MESH_GEMM, PROMPT, NEW_TOKENS)
