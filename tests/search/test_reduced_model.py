"""Tests of reduced models and sizes of tiles: bytes and cycles equal those of the full Program."""

from dataclasses import fields, replace

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, linear_spec, tiny_spec

from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.demand import demand_of
from wse.compiler.options import OPTIMIZED, REPORT, Options
from wse.compiler.passes.allocate import reserved_bytes
from wse.compiler.passes.partition import partition
from wse.compiler.passes.shard import shard
from wse.compiler.pipeline import compile_choice, first_state, with_tiles
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.reduced import min_bytes
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.tile_sizes import WITHOUT_TILES, size_tiles
from wse.compiler.search.trials.trial import StepCycles
from wse.compiler.strategies import layers_of_regions
from wse.models.attention_traits import HeadShape
from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec, Packing
from wse.serving.route import busiest_server
from wse.studies.estimate.timing.stage_times import RouteReader
from wse.studies.results.sram import cache_capacity, users_at
from wse_mappings.regions.layout import Layout
from wse_mappings.regions.region_shapes import fullest_bytes

OPTIONS = region_options(mapping="pipeline", dtype="float16", context=40, prompt_tokens=(9,), capacity=REPORT)
CHOICE = Choice(bands=2, per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
WINDOWED = replace(tiny_spec(layers=12), layers=(Layer(window=4), Layer()) * 6)
WINDOW_HEADS = replace(
    WINDOWED,
    window_heads=HeadShape(kv_count=3, size=10),
    window_rope=plain_rope(10, 1e2),
    keys_as_values=True,
    value_norm=True,
    head_norm="rms",
    stream_scale=True,
)
SPECS = {
    "dense": tiny_spec(layers=8),
    "untied": tiny_spec(layers=8, tied=False),
    "two kinds": WINDOWED,
    "heads of windows": WINDOW_HEADS,
    "norms of layers": replace(WINDOWED, layers=(Layer(pre_norms=False, post_norms=True), Layer()) * 6),
    "mixture": mixture_spec(MIXTURES["shared"], layers=8),
    "latent": latent_spec(layers=6),
    "linear": replace(linear_spec(), layers=(Layer(linear=True), Layer()) * 6),
}


def check_bytes(name: str, options: Options, choice: Choice = CHOICE, sram_bytes: int = 49_152) -> None:
    """Check that a reduced model has the bytes of the fullest PEs of all stages, and the cycles of the full model."""
    spec, machine = SPECS[name], wafer(12, 13, sram_bytes)
    full_program = compile_choice(spec, machine, SOFTWARE, options, choice)
    reduced = reduced_model(spec, machine, SOFTWARE, options, choice)
    assert choice.block_parts > 1 or len(reduced.state.spec.layers) < len(spec.layers)
    reduced_state = reduced.allocate()
    needed = reduced_state.needed_bytes()
    assert set(needed) == {stage.sram_top_byte for stage in full_program.stages}
    assert reduced.min_bytes() <= max(needed)
    assert any(stage.first_part > 1 for stage in full_program.stages) == (choice.block_parts > 1)
    program = reduced_state.program()
    cost = Fabric(program, machine, SOFTWARE).decode_cost(20)
    cycles = Fabric(full_program, machine, SOFTWARE).decode_cost(20).cycles
    sum_over_model = reduced_state.sum_over_model(program, program.decode, cost.by_step)
    assert sum_over_model == pytest.approx(cycles, rel=0.01)  # transfers to the next stage have other lengths


@pytest.mark.parametrize(
    ("name", "dtype", "wafers", "block_parts", "sram_bytes"),
    [
        ("untied", "float16", 2, 0, 49_152),
        ("heads of windows", "float16", 4, 0, 49_152),
        ("heads of windows", "int4", 3, 4, 49_152),
        ("norms of layers", "float16", 1, 0, 49_152),
        ("mixture", "int4", 1, 0, 49_152),
        ("latent", "float16", 1, 0, 49_152),
        ("linear", "int4", 1, 0, 49_152),
        ("untied", "int4", 3, 4, 49_152),
        ("two kinds", "float16", 3, 4, 21_000),
        ("mixture", "int4", 3, 4, 49_152),
        ("latent", "float16", 3, 4, 21_000),
    ],
)
def test_bytes_and_cycles_are_those_of_the_full_program(
    name: str, dtype: str, wafers: int, block_parts: int, sram_bytes: int
) -> None:
    """Layers are whole or cut in four parts. With 21,000 bytes nothing fits, and buffers are in another order."""
    options = replace(OPTIONS, wafers=wafers, dtype=dtype, activations="float16" if dtype == "int4" else None)
    check_bytes(name, options, replace(CHOICE, block_parts=block_parts), sram_bytes)


@pytest.mark.parametrize("dtype", ["float16", "int4"])
@pytest.mark.parametrize("window_heads", [None, HeadShape(kv_count=2, size=12)], ids=str)
def test_lower_bound_of_a_layout_is_at_most_the_bytes_of_many_kv_caches(
    window_heads: HeadShape | None, dtype: str
) -> None:
    """Rows store one or two of 192 features of a weight matrix, but equal numbers of KV-cache entries."""
    spec, machine = tiny_spec(hidden=192, heads=4, kv_heads=4, head_size=8, ffn=320), wafer(180, 13, 1 << 22)
    if window_heads is not None:
        layers = (Layer(window=2000), Layer())
        spec = replace(spec, layers=layers, window_heads=window_heads, window_rope=plain_rope(12, 1e2))
    options = replace(OPTIONS, mapping="bands", dtype=dtype, activations="float16", context=1800, cache_tokens=360_000)
    reduced_state = reduced_model(spec, machine, SOFTWARE, options, replace(CHOICE, bands=1)).allocate()
    demand, layout = demand_of(spec, machine, options), Layout("bands", 1, 2)
    assert demand == demand_of(spec, machine, options)  # it is the key of cached results
    bound = fullest_bytes(demand, layout, layers_of_regions(demand, layout))
    needed = max(reduced_state.needed_bytes()) - reserved_bytes(machine, SOFTWARE)
    assert 0.8 * needed < bound <= needed


@pytest.mark.parametrize(("dtype", "experts"), [("float16", "distributed"), ("int4", "dedicated")])
def test_bytes_of_experts_alone_are_at_most_those_of_all_tiles(
    dtype: str, experts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If experts are far too large, nothing else is counted."""
    activations = "float16" if dtype == "int4" else None
    options = replace(OPTIONS, mapping="tensor", wafers=3, dtype=dtype, activations=activations, experts=experts)
    choice = replace(CHOICE, bands=1, per_band=1)
    reduced_state = reduced_model(SPECS["mixture"], wafer(12, 13), SOFTWARE, options, choice)
    all_bytes = reduced_state.min_bytes()
    monkeypatch.setattr(min_bytes, "FAR_TOO_MANY", 0)
    expert_bytes = reduced_state.min_bytes()
    monkeypatch.setattr(min_bytes, "sizes_of", None)  # fails if tiles are sized
    assert 0 < expert_bytes == reduced_state.min_bytes() < all_bytes


@pytest.mark.parametrize("name", ["mixture", "latent"])
def test_consecutive_layers_share_temporary_buffers_with_all_rewrites(name: str) -> None:
    """Values that rewrites write into the middle of a buffer belong to no earlier layer."""
    options = replace(OPTIONS, schedule=OPTIMIZED)
    check_bytes(name, options, replace(CHOICE, rewrites=rewrites_of(SPECS[name], options)))


@pytest.mark.parametrize("name", ["two kinds", "linear"])
def test_busiest_stage_of_a_chunk_is_that_of_the_full_program(name: str) -> None:
    """The only chunk of a short prompt, after cached tokens, represents a chunk in the middle."""
    spec, machine = SPECS[name], wafer(12, 13)
    full_program = compile_choice(spec, machine, SOFTWARE, replace(OPTIONS, prompt_tokens=(12,)), CHOICE)
    full_fabric = Fabric(full_program, machine, SOFTWARE)
    reduced_state = reduced_model(spec, machine, SOFTWARE, replace(OPTIONS, prompt_tokens=(4,)), CHOICE).allocate()
    program = reduced_state.program()
    chunk = replace(program.prefill[0], cached=full_program.prefill[1].cached)
    cost = Fabric(replace(program, phases=(chunk,)), machine, SOFTWARE).prefill_cost(0)
    busiest = reduced_state.busiest_cycles(program, chunk, StepCycles(cost.by_step, cost.launch_by_step))
    route = RouteReader(full_fabric).route(full_program.prefill[1], full_fabric.prefill_cost(1))
    assert busiest == pytest.approx(busiest_server(route)[1], rel=0.02)


@pytest.mark.parametrize("name", ["untied", "dense"])
@pytest.mark.parametrize(
    ("wafers", "link_bytes_per_s"), [(1, 150e9), (2, 150e9), (2, 1e7)], ids=["one wafer", "fast link", "slow link"]
)
def test_busiest_stage_or_link_of_a_token_is_that_of_the_full_program(
    name: str, wafers: int, link_bytes_per_s: float
) -> None:
    """The latency of the link, 5 us, is longer than a stage takes, but keeps neither a stage nor the link busy."""
    spec = SPECS[name]
    machine = replace(wafer(12, 13), wafer_link_bytes_per_s=link_bytes_per_s, wafer_link_latency_s=5e-6)
    options = replace(OPTIONS, wafers=wafers)
    full_program = compile_choice(spec, machine, SOFTWARE, options, CHOICE)
    full_fabric = Fabric(full_program, machine, SOFTWARE)
    reduced_state = reduced_model(spec, machine, SOFTWARE, options, CHOICE).allocate()
    program = reduced_state.program()
    cost = Fabric(program, machine, SOFTWARE).decode_cost(20)
    busiest = reduced_state.busiest_cycles(program, program.decode, StepCycles(cost.by_step, cost.launch_by_step))
    route = RouteReader(full_fabric).route(full_program.decode, full_fabric.decode_cost(20))
    assert busiest == pytest.approx(busiest_server(route)[1], rel=0.02)


@pytest.mark.parametrize("name", ["two kinds", "latent", "linear"])
def test_planned_caches_need_the_bytes_of_a_program_that_stores_them(name: str) -> None:
    """Caches planned for 7 users need the bytes of 7 users, but passes have buffers for only one user."""
    spec, machine = SPECS[name], wafer(12, 13)
    planned = replace(OPTIONS, cache_tokens=7 * OPTIONS.context)
    reduced_state = reduced_model(spec, machine, SOFTWARE, planned, CHOICE).allocate()
    full_program = compile_choice(spec, machine, SOFTWARE, planned, CHOICE)
    caches = [kv + state for kv, state, _ in full_program.user_bytes()]
    needed = {stage.sram_top_byte + 6 * cache for stage, cache in zip(full_program.stages, caches, strict=True)}
    assert set(reduced_state.needed_bytes()) == needed
    max_users = min((room // (kv + state) for kv, state, room in full_program.user_bytes() if kv + state))
    assert reduced_state.users_that_fit(OPTIONS.context, 0) == max_users
    for tokens in (1, 7, OPTIONS.context // 2, OPTIONS.context):
        assert reduced_state.users_that_fit(tokens, 0) == users_at(full_program, tokens)


@pytest.mark.parametrize("name", ["two kinds", "latent", "linear"])
def test_users_share_the_whole_blocks_of_a_prefix(name: str) -> None:
    """A cache has blocks of one token per PE row. Of a prefix of 33 tokens, users share 5 blocks of 6."""
    options = replace(OPTIONS, prompt_tokens=(36,), prefix_tokens=33)
    arguments = SPECS[name], wafer(12, 13), SOFTWARE, options, CHOICE
    program = compile_choice(*arguments)
    capacity = cache_capacity(program, 40)
    assert (capacity.block_tokens, capacity.blocks) == (6, 7)
    user_bytes = 2 * capacity.kv_bytes + 7 * capacity.state_bytes
    assert capacity.users(40) == (7 * capacity.room_bytes - 5 * capacity.kv_bytes) // user_bytes
    reduced_state = reduced_model(*arguments).allocate()
    for tokens in (1, 7, 34, 40):
        assert reduced_state.users_that_fit(tokens, 33) == users_at(program, tokens)


TILE_SIZES_OPTIONS = region_options(
    mapping="pipeline", wafers=2, dtype="float16", context=40, prompt_tokens=(9,), capacity=REPORT
)
TILE_SIZES_CHOICE = Choice(bands=2, per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=5, block_parts=2)
TILE_SIZES_SPECS = {
    "dense": tiny_spec(layers=7),
    "heads of windows": WINDOW_HEADS,
    "mixture": mixture_spec(MIXTURES["shared"], layers=5),
    "latent": latent_spec(layers=6),
}


def request_of(spec: ModelSpec, dtype: str) -> tuple[Options, Choice]:
    """Return options and a choice with layers cut in two parts and all rewrites."""
    activations = "float16" if dtype == "int4" else None
    options = replace(TILE_SIZES_OPTIONS, dtype=dtype, activations=activations, schedule=OPTIMIZED)
    return options, replace(TILE_SIZES_CHOICE, rewrites=rewrites_of(spec, options))


@pytest.mark.parametrize(
    ("name", "dtype"), [("dense", "float16"), ("heads of windows", "int4"), ("mixture", "int4"), ("latent", "int4")]
)
def test_sizes_equal_those_of_tiles_in_order(name: str, dtype: str) -> None:
    state = partition(
        first_state(TILE_SIZES_SPECS[name], wafer(12, 13), SOFTWARE, *request_of(TILE_SIZES_SPECS[name], dtype))
    )
    buffers = [[getattr(b, f.name) for f in fields(b)] for b in shard(state).weights]
    assert len(buffers) > len(state.plans)
    assert [[getattr(b, f.name) for f in fields(b)] for b in size_tiles(state).weights] == buffers


@pytest.mark.parametrize(
    ("mixture", "ffn_size", "experts"),
    [("biased", 24, "distributed"), ("shared", 24, "3"), ("shared", 24, "dedicated"), ("shared", 37, "3")],
)
def test_sizes_of_experts_equal_those_of_tiles_with_and_without_shared_scales(
    mixture: str, ffn_size: int, experts: str
) -> None:
    """Experts of 24 features are whole blocks that share scales; those of 37 features are not."""
    packing = Packing(method="fp8", block=(8, 8))
    spec = mixture_spec(replace(MIXTURES[mixture], ffn_size=ffn_size), layers=4, packing=packing)
    options = replace(TILE_SIZES_OPTIONS, dtype="fp8", activations="float16", schedule=OPTIMIZED, experts=experts)
    choice = replace(TILE_SIZES_CHOICE, rewrites=rewrites_of(spec, options))
    state = partition(first_state(spec, wafer(12, 26), SOFTWARE, options, choice))
    buffers = [(b.stage, b.name, b.view, b.elements) for b in shard(state).weights]
    assert [(b.stage, b.name, b.view, b.elements) for b in size_tiles(state).weights] == buffers


def test_tiles_can_be_added_to_a_program_compiled_without_them() -> None:
    spec = TILE_SIZES_SPECS["mixture"]
    request = (spec, wafer(12, 13), SOFTWARE, *request_of(spec, "int4"))
    full_program, without_tiles = compile_choice(*request), compile_choice(*request, WITHOUT_TILES)
    assert (without_tiles.tiles, without_tiles.padding_fraction) == ((), 0.0)
    assert without_tiles.buffers == full_program.buffers
    program = with_tiles(without_tiles, *request)
    assert program.padding_fraction == full_program.padding_fraction > 0
    for tile, expected in zip(program.tiles, full_program.tiles, strict=True):
        assert (tile.stage, tile.name, tile.address) == (expected.stage, expected.name, expected.address)
        for part, expected_part in zip(tile.parts, expected.parts, strict=True):
            np.testing.assert_array_equal(part.inner, expected_part.inner)
