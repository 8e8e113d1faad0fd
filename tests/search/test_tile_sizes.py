"""Test that sizes of tiles in a search are right, and that the chosen Program gets tiles."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import OPTIMIZED, REPORT, Options
from wse.compiler.passes.partition import partition
from wse.compiler.passes.shard import shard
from wse.compiler.pipeline import compile_choice, first_state, with_tiles
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.tile_sizes import WITHOUT_TILES, size_tiles
from wse.models.spec import ModelSpec, Packing

OPTIONS = region_options(mapping="pipeline", wafers=2, dtype="float16", context=40, prompt_tokens=(9,), capacity=REPORT)
CHOICE = Choice(bands=2, per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=5, block_parts=2)
SPECS = {
    "dense": tiny_spec(layers=7),
    "mixture": mixture_spec(MIXTURES["shared"], layers=5),
    "latent": latent_spec(layers=6),
}


def request_of(spec: ModelSpec, dtype: str) -> tuple[Options, Choice]:
    activations = "float16" if dtype == "int4" else None
    options = replace(OPTIONS, dtype=dtype, activations=activations, schedule=OPTIMIZED)
    return options, replace(CHOICE, rewrites=rewrites_of(spec, options))


@pytest.mark.parametrize("dtype", ["float16", "int4"])
@pytest.mark.parametrize("name", SPECS)
def test_sizes_are_those_of_the_tiles_in_their_order(name: str, dtype: str) -> None:
    state = partition(first_state(SPECS[name], wafer(12, 13), SOFTWARE, *request_of(SPECS[name], dtype)))
    buffers = [[getattr(b, f.name) for f in fields(b)] for b in shard(state).weights]
    assert len(buffers) > len(state.plans)
    assert [[getattr(b, f.name) for f in fields(b)] for b in size_tiles(state).weights] == buffers


@pytest.mark.parametrize("experts", ["distributed", "3", "dedicated"])
@pytest.mark.parametrize("ffn_size", [24, 37])
@pytest.mark.parametrize("mixture", ["biased", "shared"])
def test_sizes_are_those_of_tiles_whether_experts_share_scales(mixture: str, ffn_size: int, experts: str) -> None:
    """Experts of 24 features are whole blocks that share scales; those of 37 features are not."""
    packing = Packing(method="fp8", block=(8, 8))
    spec = mixture_spec(replace(MIXTURES[mixture], ffn_size=ffn_size), layers=4, packing=packing)
    options = replace(OPTIONS, dtype="fp8", activations="float16", schedule=OPTIMIZED, experts=experts)
    choice = replace(CHOICE, rewrites=rewrites_of(spec, options))
    state = partition(first_state(spec, wafer(12, 26), SOFTWARE, options, choice))
    buffers = [(b.stage, b.name, b.view, b.elements) for b in shard(state).weights]
    assert [(b.stage, b.name, b.view, b.elements) for b in size_tiles(state).weights] == buffers


@pytest.mark.parametrize("name", SPECS)
def test_a_program_gets_the_tiles_that_it_was_compiled_without(name: str) -> None:
    request = (SPECS[name], wafer(12, 13), SOFTWARE, *request_of(SPECS[name], "int4"))
    whole, without = compile_choice(*request), compile_choice(*request, WITHOUT_TILES)
    assert (without.tiles, without.padding_fraction) == ((), 0.0)
    assert without.buffers == whole.buffers
    program = with_tiles(without, *request)
    assert program.padding_fraction == whole.padding_fraction > 0
    for tile, expected in zip(program.tiles, whole.tiles, strict=True):
        assert (tile.stage, tile.name, tile.address) == (expected.stage, expected.name, expected.address)
        for part, of_whole in zip(tile.parts, expected.parts, strict=True):
            np.testing.assert_array_equal(part.inner, of_whole.inner)
