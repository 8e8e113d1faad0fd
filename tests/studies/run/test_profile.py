"""A run's own time: every pass is counted, bytes are those of the operands, and the flame graph adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.prepare import prepare
from wse.studies.run.profile import ProfileResult
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run

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
PASSES = 4  # after the prompt, whose last one gives the first token


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    path = tmp_path_factory.mktemp("profile") / "flame.json"
    return run(replace_options(REQUEST, profile=True, profile_output=path))


@pytest.fixture
def profile(result: RunResult) -> ProfileResult:
    assert result.profile is not None
    return result.profile


def test_every_table_has_all_of_the_time_and_all_of_the_bytes(profile: ProfileResult) -> None:
    tables = profile.by_kind, profile.by_op, profile.by_kernel
    for rows in tables:
        assert sum(row.s for row in rows) == pytest.approx(profile.passes_s)
        assert sum(row.share for row in rows) == pytest.approx(1)
        assert [row.s for row in rows] == sorted((row.s for row in rows), reverse=True)
        for row in rows:
            assert row.bound_fraction == pytest.approx(row.bytes / row.s / profile.read_bytes_per_s)
    assert len({sum(row.bytes for row in rows) for rows in tables}) == 1
    assert {"compute", "line", "cache_shift"} <= {row.name for row in profile.by_kind}


def test_products_read_all_weights_once_a_token_and_little_else(profile: ProfileResult) -> None:
    program = compile_program(prepare(REQUEST))
    layers = [tile for tile in program.tiles if ".norm" not in tile.name and tile.name.startswith("layers.")]
    weights = sum(2 * tile.elements * 16 * 16 for tile in layers if tile.outer > 1)
    (gemv,) = (row for row in profile.by_kernel if row.name == "gemv")
    assert weights * PASSES <= gemv.bytes < 2 * weights * PASSES


def test_the_flame_graph_has_phases_over_ops_over_kernels(profile: ProfileResult) -> None:
    content = json.loads(Path(profile.output).read_text(encoding="utf-8"))
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    (sampled,) = content["profiles"]
    stacks = [[frames[i] for i in sample] for sample in sampled["samples"]]
    assert {stack[0] for stack in stacks} == {"prefill", "decode"}
    assert ["decode", "layers.0.down", "gemv"] in stacks
    assert sum(sampled["weights"]) == pytest.approx(sampled["endValue"]) == pytest.approx(profile.passes_s)


def test_tokens_are_those_of_a_run_that_is_not_timed(result: RunResult) -> None:
    assert run(REQUEST).tokens == result.tokens


def test_of_a_table_of_vectors_the_rows_that_are_looked_up_count(profile: ProfileResult) -> None:
    (table,) = (tile for tile in compile_program(prepare(REQUEST)).tiles if tile.name == "embedding")
    (lookup,) = (row for row in profile.by_kernel if row.name == "embedding_lookup")
    assert 0 < lookup.bytes < 2 * table.elements * 16 * 16 * PASSES / 10
