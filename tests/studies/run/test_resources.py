"""Tests of the memory that a run needs, of the remedies if there is too little, and of ``--profile``."""

import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import pytest
from tiers import slow_but

import wse
from tests.models.helpers import write_config
from wse.backends.execute.engine import Engine
from wse.backends.execute.host_memory.required_memory import IN_FLIGHT_BYTES, required_bytes
from wse.backends.execute.weight_storage import weights
from wse.backends.execute.weight_storage.tiles import VALUES_IN_FLIGHT
from wse.errors import InsufficientMemory
from wse.models.tensors.model_tensors import tensor_shapes
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request, replace_options
from wse.studies.run import memory
from wse.studies.run.prepare import prepare, weights_of
from wse.studies.run.profile import ProfileResult
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run

LARGER = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_hidden_layers": 6,
    "vocab_size": 16000,
    "max_position_embeddings": 4096,
}
"""Configuration of a model with 35 million parameters."""
BASELINE: dict[str, Any] = {"schedule": "baseline", "mapping": "region"}


def needed_bytes(**options: Any) -> int:
    """Return the bytes of memory that a run with these options needs."""
    return required_bytes(compile_program(prepare(make_request(RunRequest, trace=None, **BASELINE | options))))


def test_required_bytes_equal_those_that_an_engine_allocates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are stored in bfloat16 and converted to float32.

    The bytes are within 2 % of those that remain allocated. The peak depends only on the values that may be
    in flight, here a quarter of the usual number, and not on the number of threads.
    """
    request = make_request(
        RunRequest, model=write_config(tmp_path, **LARGER), weights="random:7", new_tokens=40, mesh="80x80", **BASELINE
    )
    prepared = prepare(request, to_run=True)
    program = compile_program(prepared)
    drawn = weights_of(request, prepared.loaded)
    tensors = {name: drawn(name)[:].astype(ml_dtypes.bfloat16) for name in tensor_shapes(prepared.spec)}.__getitem__
    Engine(program, prepared.spec, tensors)  # compiles the kernels
    expected = required_bytes(program) - IN_FLIGHT_BYTES
    assert expected > 140e6
    monkeypatch.setattr(weights, "thread_count", lambda: 64)
    monkeypatch.setattr(weights, "VALUES_IN_FLIGHT", VALUES_IN_FLIGHT // 4)
    tracemalloc.start()
    engine = Engine(program, prepared.spec, tensors)
    allocated, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert engine.program is program
    assert abs(allocated / expected - 1) < 0.02, (allocated, expected)
    assert expected < peak < expected + 1.5 * IN_FLIGHT_BYTES / 4, (peak, expected)


OPTIONS: list[dict[str, Any]] = [
    {"mesh": "80x80", "new_tokens": 40},
    {"mesh": "64x64", "new_tokens": 3000, "dtype": "float16"},
]


@pytest.mark.parametrize("options", slow_but(OPTIONS, OPTIONS[0]), ids=str)
def test_remedies_of_insufficient_memory_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    config = write_config(tmp_path, **LARGER)
    free = IN_FLIGHT_BYTES + (needed_bytes(model=config, **options) - IN_FLIGHT_BYTES) * 4 // 5
    monkeypatch.setattr(memory, "free_bytes", lambda: free)
    with pytest.raises(InsufficientMemory) as refused:
        wse.run(config, weights="random:7", trace=None, **BASELINE, **options)
    found = re.fullmatch(r".* any of these would fit: (.*); or free some memory.*", str(refused.value))
    assert found, refused.value
    for remedy in found[1].split(", "):
        match remedy.split():
            case ["no", "--mesh"]:
                changes: dict[str, Any] = {"mesh": None}
            case ["--dtype", dtype]:
                changes = {"dtype": dtype}
            case ["--new-tokens", tokens]:
                changes = {"new_tokens": int(tokens)}
                assert needed_bytes(model=config, **options | {"new_tokens": int(tokens) + 1}) > free
            case other:
                pytest.fail(f"{other}: no such option")
        assert needed_bytes(model=config, **options | changes) <= free, remedy
    monkeypatch.setattr(memory, "free_bytes", lambda: needed_bytes(model=config, **options))
    prepared = prepare(make_request(RunRequest, model=config, trace=None, **BASELINE, **options))
    memory.check_memory(prepared, compile_program(prepared))


REQUEST = make_request(
    RunRequest,
    prompt="One day",
    new_tokens=5,
    mesh="16x16",
    mapping="region",
    dtype="float16",
    trace=None,
    schedule="baseline",
)
PASSES = 4  # decode passes: the prompt phase computes the first of the five tokens


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Run REQUEST with a profile."""
    path = tmp_path_factory.mktemp("profile") / "flame.json"
    return run(replace_options(REQUEST, profile=True, profile_output=path))


@pytest.fixture
def profile(result: RunResult) -> ProfileResult:
    assert result.profile is not None
    return result.profile


def test_each_profile_table_adds_up_to_the_total(profile: ProfileResult) -> None:
    tables = profile.by_kind, profile.by_op, profile.by_kernel
    for rows in tables:
        assert sum(row.s for row in rows) == pytest.approx(profile.passes_s)
        assert sum(row.share for row in rows) == pytest.approx(1)
        assert [row.s for row in rows] == sorted((row.s for row in rows), reverse=True)
        for row in rows:
            assert row.bound_fraction == pytest.approx(row.bytes / row.s / profile.read_bytes_per_s)
    assert len({sum(row.bytes for row in rows) for rows in tables}) == 1
    assert {"compute", "line", "cache_shift"} <= {row.name for row in profile.by_kind}


def test_products_read_all_weights_once_per_token(profile: ProfileResult) -> None:
    program = compile_program(prepare(REQUEST))
    layers = [tile for tile in program.tiles if ".norm" not in tile.name and tile.name.startswith("layers.")]
    weights = sum(2 * tile.elements * 16 * 16 for tile in layers if tile.outer > 1)
    (gemv,) = (row for row in profile.by_kernel if row.name == "gemv")
    assert weights * PASSES <= gemv.bytes < 2 * weights * PASSES


def test_flame_graph_has_stacks_of_phase_operation_and_kernel(profile: ProfileResult) -> None:
    content = json.loads(Path(profile.output).read_text(encoding="utf-8"))
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    (sampled,) = content["profiles"]
    stacks = [[frames[i] for i in sample] for sample in sampled["samples"]]
    assert {stack[0] for stack in stacks} == {"prefill", "decode"}
    assert ["decode", "layers.0.down", "gemv"] in stacks
    assert sum(sampled["weights"]) == pytest.approx(sampled["endValue"]) == pytest.approx(profile.passes_s)


def test_tokens_do_not_depend_on_profiling(result: RunResult) -> None:
    assert run(REQUEST).tokens == result.tokens


def test_embedding_lookup_counts_only_the_rows_it_reads(profile: ProfileResult) -> None:
    (table,) = (tile for tile in compile_program(prepare(REQUEST)).tiles if tile.name == "embedding")
    (lookup,) = (row for row in profile.by_kernel if row.name == "embedding_lookup")
    assert 0 < lookup.bytes < 2 * table.elements * 16 * 16 * PASSES / 10
