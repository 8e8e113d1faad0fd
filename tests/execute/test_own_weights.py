"""Prefill with weights of its own gives what a plain decoder gives, and leaves its tiles where they were."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from plain_decoder import plain_logits
from session import SOFTWARE, check_traffic, forced, region_options, wafer
from tiers import slow_but
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, MESH_GEMM, MESH_GEMM_OWN, PREFILL
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.program.program import Program

F32 = npt.NDArray[np.float32]

HEADS = {
    "one head": {"heads": 1, "kv_heads": 1, "head_size": 10},
    "one head as wide as the vector": {"heads": 1, "kv_heads": 1, "head_size": 40},
    "three heads share a key": {"heads": 3, "kv_heads": 1, "head_size": 6},
    "several heads": {"heads": 6, "kv_heads": 2, "head_size": 6},
}
PROMPTS = [(11, 11), (2, 2), (23, 6)]
"""Tokens, and how many at once: more than the rows of small squares, fewer than those of larger ones, in chunks."""
NEW_TOKENS = 4


def program_of(
    spec: ModelSpec, side: int, prompt: int, chunk: int, prefill: str, phases: tuple[str, ...] = (PREFILL, DECODE)
) -> Program:
    options = region_options(context=prompt + NEW_TOKENS, prompt_tokens=(prompt,), logits_out="all", phases=phases)
    choice = Choice(prefill=prefill, prefill_chunk=chunk, head_chunk=9)
    return compile_choice(spec, wafer(side, side, 1 << 20), SOFTWARE, options, choice)


def ids(count: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(count).integers(3, 60, count)]


def plain(spec: ModelSpec, prompt: list[int], following: list[int]) -> F32:
    """The same by whole matrices."""
    made = plain_logits(spec, tensors(spec).__getitem__, [*prompt, *following[:-1]])
    return made[len(prompt) - 1 :].astype(np.float32)


@pytest.mark.parametrize(("prompt", "chunk"), PROMPTS)
@pytest.mark.parametrize("side", slow_but([1, 3, 6], 3))
@pytest.mark.parametrize("heads", HEADS)
def test_logits_are_those_of_the_plain_decoder_and_decode(heads: str, side: int, prompt: int, chunk: int) -> None:
    spec = tiny_spec(**HEADS[heads])
    size = chunk if chunk % side == 0 or chunk == prompt else prompt
    given, following = ids(prompt), ids(NEW_TOKENS)
    got = {}
    for prefill in (MESH_GEMM_OWN, MESH_GEMM):
        engine = Engine(program_of(spec, side, prompt, size, prefill), spec, tensors(spec).__getitem__)
        got[prefill] = forced(engine, given, following)
    assert np.abs(got[MESH_GEMM_OWN] - got[MESH_GEMM]).max() < 1e-5
    assert np.abs(got[MESH_GEMM_OWN] - plain(spec, given, following)).max() < 1e-4


@pytest.mark.parametrize("side", [3, 6])
@pytest.mark.parametrize("heads", ["one head", "several heads"])
def test_words_on_links_are_the_fabrics_and_tiles_are_back_where_they_were(heads: str, side: int) -> None:
    spec = tiny_spec(**HEADS[heads])
    program = program_of(spec, side, 23, 6, MESH_GEMM_OWN)
    engine = Engine(program, spec, tensors(spec).__getitem__)

    def held() -> list[bytes]:
        read = engine.arenas[0].read
        return [read("float32", t.address, t.outer * t.inner).tobytes() for t in program.tiles]

    before = held()
    forced(engine, ids(23), ids(NEW_TOKENS))
    assert held() == before
    fabric = Fabric(program, wafer(side, side), SOFTWARE)
    costs = [fabric.prefill_cost(i) for i in range(4)] + [fabric.decode_cost(23 + i) for i in range(NEW_TOKENS - 1)]
    check_traffic(engine, costs)
