"""Runs on wafers with dead PEs and links: the same tokens, a trace that reads, and a report of what was lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placements import ONE_REGION
from tiers import slow_but

from tests.models.helpers import write_config, write_model
from wse.errors import DoesNotFit
from wse.hardware.defects import read_defects
from wse.hardware.live_mesh import corner_meshes, fewest_wafers_with_defects, largest_live_meshes
from wse.hardware.load import load_wafer
from wse.hardware.mesh import mesh_on
from wse.hardware.spec import WaferSpec
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.places.pe import read_pe
from wse.tracing.query.request import inspect_trace
from wse_traces import open_trace, problems
from wse_traces.reader.planes import layer_link_words

LISTED = "row,col,direction,wafer\n2,3,,\n5,5,,0\n5,7,,0\n1,1,east,\n6,2,south,1\n0,0,,1\n"
REQUESTS: dict[str, dict[str, Any]] = {
    "tensor on two wafers": {"mesh": "12x9", "mapping": "tensor", "wafers": 2},
    "region": {"mesh": "12x12"},
    "auto": {"mesh": "14x18", "mapping": "auto"},
}


ASKED: dict[str, Any] = {"prompt": "Once upon a time", "new_tokens": 12, "schedule": "baseline"}


@pytest.fixture(scope="module")
def tokens_in_one_region() -> list[int]:
    """What the model says on one whole wafer."""
    prepared = prepare(make_request(RunRequest, **ONE_REGION, **ASKED))
    tokens: list[int] = list(execute(prepared, compile_program(prepared)).users[0].tokens)
    return tokens


@pytest.fixture
def listed(tmp_path: Path) -> str:
    path = tmp_path / "dead.csv"
    path.write_text(LISTED, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", slow_but(REQUESTS, "region"))
def test_a_run_among_dead_pes_gives_its_tokens(
    name: str, listed: str, tmp_path: Path, tokens_in_one_region: list[int]
) -> None:
    options = {**ONE_REGION, **REQUESTS[name], **ASKED}
    whole = prepare(make_request(RunRequest, **options))
    prepared = prepare(make_request(RunRequest, **options, defects=listed))
    path = tmp_path / "run.h5"
    plain = execute(whole, compile_program(whole)).to_dict()
    found = execute(prepared, compile_program(prepared), trace=path).to_dict()
    assert found["tokens"] == plain["tokens"] == tokens_in_one_region
    told = found["defects"]
    rows, cols = whole.wafer.mesh_rows, whole.wafer.mesh_cols
    wafers = found["system"]["wafers"]
    assert (told["fabric_rows"], told["fabric_cols"]) == (rows, cols)
    assert told["dead_pes"] == (3 if wafers == 1 else 5)
    assert told["dead_links"] == (1 if wafers == 1 else 3)
    assert found["wafer"]["rows"] == rows - told["rows_lost"]
    assert found["wafer"]["cols"] == cols - told["cols_lost"]
    assert told["pes_lost"] == wafers * (rows * cols - found["wafer"]["rows"] * found["wafer"]["cols"])
    assert told["usable_fraction"] == 1 - told["pes_lost"] / (wafers * rows * cols)
    assert told["longest_detour_hops"] >= 3
    assert min(told["extra_hops"].values()) > 0
    assert told["slowdown"] > 1
    assert problems(path) == []
    with open_trace(path) as trace:
        assert (trace.header.rows, trace.header.cols) == (rows, cols)
        assert trace.header.options["mesh"] == [found["wafer"]["rows"], found["wafer"]["cols"]]
        for wafer, mesh in enumerate(prepared.meshes):
            words = trace.column("links/words", wafer, wafer + 1)[0]
            assert words.any()
            assert not words[:, mesh.fabric.dead].any()
            assert not words[1, mesh.fabric.east].any()
            np.testing.assert_array_equal(layer_link_words(trace, wafer=wafer), words)
    seen = inspect_trace(InspectRequest(trace=path)).to_dict()
    assert seen["decode"]["wavelet_hops_per_pass"] == found["fabric"]["wavelet_hops_per_token"]


@pytest.mark.parametrize("mapping", slow_but(["region", "tensor", "auto"], "region"))
def test_an_estimate_among_dead_pes_is_what_the_run_takes(mapping: str, tmp_path: Path) -> None:
    write_model(tmp_path)
    write_config(tmp_path, "eos_token_id")
    placed: dict[str, Any] = {"mesh": "8x8", "mapping": mapping, "wafers": 2, "context": 20, "defects": "0.05"}
    prepared = prepare(make_request(RunRequest, model=str(tmp_path), prompt_ids=(3, 5, 7, 9), new_tokens=9, **placed))
    executed = execute(prepared, compile_program(prepared)).to_dict()
    lengths = {"prompt_len": 4, "new_tokens": 9}
    estimated = estimate(
        make_request(EstimateRequest, model=str(tmp_path / "config.json"), **lengths, **placed)
    ).to_dict()
    for section in ("prefill", "decode", "fabric", "crossing", "system"):
        assert {key: estimated[section][key] for key in executed[section]} == executed[section]
    told = ("dead_pes", "pes_lost", "extra_hops", "longest_detour_hops")
    assert [estimated["defects"][key] for key in told] == [executed["defects"][key] for key in told]
    assert estimated["inputs"]["defects"] == "0.05"


def test_the_mesh_that_is_found_grows_round_the_dead_and_the_program_stays_the_same() -> None:
    options = {"prompt": "Once upon a time", "new_tokens": 4, "schedule": "baseline"}
    whole = prepare(make_request(RunRequest, **options))
    prepared = prepare(make_request(RunRequest, **options, defects="0.04", defects_seed=3))
    (mesh,) = prepared.meshes
    assert mesh.fabric.dead.any()
    assert mesh.fabric.shape > mesh.shape == (whole.wafer.mesh_rows, whole.wafer.mesh_cols)
    assert compile_program(prepared).digest() == compile_program(whole).digest()


def test_a_rate_that_draws_no_dead_pe_says_so_and_its_trace_has_no_dead_ones(tmp_path: Path) -> None:
    prepared = prepare(
        make_request(RunRequest, prompt="Once", new_tokens=2, mesh="10x10", defects="1e-2", **ONE_REGION)
    )
    assert not prepared.meshes
    result = execute(prepared, compile_program(prepared), trace=tmp_path / "t.h5")
    assert (result.defects.dead_pes, result.defects.slowdown) == (0, 1.0)
    assert "Defects" in [table.title for table in result.tables()]
    with open_trace(tmp_path / "t.h5") as trace:
        assert "defects" not in trace.header.options
        assert read_pe(trace, 0, 0, 0).links


def test_all_wafers_show_programs_as_many_pes_as_the_worst(listed: str) -> None:
    wafer = mesh_on(load_wafer("wse2"), 9, 9)
    defects = read_defects(listed, 0, wafer)
    alone, both = largest_live_meshes(defects, wafer, 1), largest_live_meshes(defects, wafer, 2)
    assert alone[0].shape == (8, 8)  # row 5 has two dead PEs
    assert {mesh.shape for mesh in both} == {(8, 8)}
    around = corner_meshes(defects, wafer, mesh_on(wafer, 4, 4), 2)
    assert [mesh.fabric.shape for mesh in around] == [(5, 5), (5, 5)]
    assert corner_meshes(defects, wafer, wafer, 1) is None


def test_the_fewest_wafers_are_enough_of_live_pes(listed: str) -> None:
    wafer = mesh_on(load_wafer("wse2"), 9, 9)
    defects = read_defects(listed, 0, wafer)

    def fewest(on: WaferSpec) -> int:
        return -(-150 // (on.mesh_rows * on.mesh_cols))

    assert (
        fewest_wafers_with_defects(wafer, None, fewest)
        == fewest_wafers_with_defects(wafer, read_defects("0", 0, wafer), fewest)
        == 2
    )
    assert fewest_wafers_with_defects(wafer, defects, fewest) == 3  # 64 instead of 81 on each


def test_what_does_not_fit_among_dead_pes_is_refused_without_a_mesh(listed: str) -> None:
    prepared = prepare(make_request(RunRequest, mesh="7x7", defects=listed, new_tokens=4, **ONE_REGION))
    with pytest.raises(DoesNotFit) as caught:
        compile_program(prepared)
    assert "--mesh" not in str(caught.value)
