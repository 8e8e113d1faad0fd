"""Tests of runs on wafers with dead PEs and links: same tokens, a valid trace, and a report of the losses."""

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
from wse.hardware.spec import WaferSpec, mesh_on
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.query.places.pe import read_pe
from wse.tracing.query.request import inspect_trace
from wse.tracing.requests import InspectRequest
from wse_traces import open_trace, problems
from wse_traces.reader.planes import layer_link_words

DEFECTS_CSV = "row,col,direction,wafer\n2,3,,\n5,5,,0\n5,7,,0\n1,1,east,\n6,2,south,1\n0,0,,1\n"
REQUESTS: dict[str, dict[str, Any]] = {
    "tensor on two wafers": {"mesh": "12x9", "mapping": "tensor", "wafers": 2},
    "region": {"mesh": "12x12"},
}


COMMON: dict[str, Any] = {"prompt": "Once upon a time", "new_tokens": 12, "schedule": "baseline"}


@pytest.fixture(scope="module")
def tokens_in_one_region() -> list[int]:
    """Return the tokens that the model generates on a wafer without defects."""
    prepared = prepare(make_request(RunRequest, **ONE_REGION, **COMMON))
    tokens: list[int] = list(execute(prepared, compile_program(prepared)).users[0].tokens)
    return tokens


@pytest.fixture
def defects_file(tmp_path: Path) -> str:
    """Write DEFECTS_CSV to a file, and return its path."""
    path = tmp_path / "dead.csv"
    path.write_text(DEFECTS_CSV, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", slow_but(REQUESTS, "region"))
def test_run_with_defects_generates_the_same_tokens(
    name: str, defects_file: str, tmp_path: Path, tokens_in_one_region: list[int]
) -> None:
    options = {**ONE_REGION, **REQUESTS[name], **COMMON}
    without_defects = prepare(make_request(RunRequest, **options))
    prepared = prepare(make_request(RunRequest, **options, defects=defects_file))
    path = tmp_path / "run.h5"
    plain = execute(without_defects, compile_program(without_defects)).to_dict()
    found = execute(prepared, compile_program(prepared), RunFiles(trace=path)).to_dict()
    assert found["tokens"] == plain["tokens"] == tokens_in_one_region
    defects = found["defects"]
    rows, cols = without_defects.wafer.mesh_rows, without_defects.wafer.mesh_cols
    wafers = found["system"]["wafers"]
    assert (defects["fabric_rows"], defects["fabric_cols"]) == (rows, cols)
    assert defects["dead_pes"] == (3 if wafers == 1 else 5)
    assert defects["dead_links"] == (1 if wafers == 1 else 3)
    assert found["wafer"]["rows"] == rows - defects["rows_lost"]
    assert found["wafer"]["cols"] == cols - defects["cols_lost"]
    assert defects["pes_lost"] == wafers * (rows * cols - found["wafer"]["rows"] * found["wafer"]["cols"])
    assert defects["usable_fraction"] == 1 - defects["pes_lost"] / (wafers * rows * cols)
    assert defects["longest_detour_hops"] >= 3
    assert min(defects["extra_hops"].values()) > 0
    assert defects["slowdown"] > 1
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


@pytest.mark.parametrize("mapping", slow_but(["region", "tensor"], "region"))
def test_estimate_with_defects_equals_the_run(mapping: str, tmp_path: Path) -> None:
    write_model(tmp_path)
    write_config(tmp_path, "eos_token_id")
    placed: dict[str, Any] = {"mesh": "8x8", "mapping": mapping, "schedule": "baseline", "wafers": 2, "context": 20}
    placed |= {"defects": "0.05"}
    prepared = prepare(make_request(RunRequest, model=str(tmp_path), prompt_ids=(3, 5, 7, 9), new_tokens=9, **placed))
    executed = execute(prepared, compile_program(prepared)).to_dict()
    lengths = {"prompt_len": 4, "new_tokens": 9}
    estimated = estimate(
        make_request(EstimateRequest, model=str(tmp_path / "config.json"), **lengths, **placed)
    ).to_dict()
    for section in ("prefill", "decode", "fabric", "crossing", "system"):
        assert {key: estimated[section][key] for key in executed[section]} == executed[section]
    keys = ("dead_pes", "pes_lost", "extra_hops", "longest_detour_hops")
    assert [estimated["defects"][key] for key in keys] == [executed["defects"][key] for key in keys]
    assert estimated["inputs"]["defects"] == "0.05"


def test_default_mesh_grows_with_defects_and_the_program_stays_the_same() -> None:
    options = {**ONE_REGION, "prompt": "Once upon a time", "new_tokens": 4, "schedule": "baseline"}
    without_defects = prepare(make_request(RunRequest, **options))
    prepared = prepare(make_request(RunRequest, **options, defects="0.04", defects_seed=3))
    (mesh,) = prepared.meshes
    assert mesh.fabric.dead.any()
    assert mesh.fabric.shape > mesh.shape == (without_defects.wafer.mesh_rows, without_defects.wafer.mesh_cols)
    assert compile_program(prepared).digest() == compile_program(without_defects).digest()


def test_rate_without_a_dead_pe_is_reported_and_not_recorded(tmp_path: Path) -> None:
    prepared = prepare(
        make_request(
            RunRequest, prompt="Once", new_tokens=2, mesh="10x10", defects="1e-2", schedule="baseline", **ONE_REGION
        )
    )
    assert not prepared.meshes
    result = execute(prepared, compile_program(prepared), RunFiles(trace=tmp_path / "t.h5"))
    assert (result.defects.dead_pes, result.defects.slowdown) == (0, 1.0)
    assert "Defects" in [table.title for table in result.tables()]
    with open_trace(tmp_path / "t.h5") as trace:
        assert "defects" not in trace.header.options
        assert read_pe(trace, 0, 0, 0).links


def test_all_wafers_have_the_live_mesh_of_the_worst_one(defects_file: str) -> None:
    wafer = mesh_on(load_wafer("wse2"), 9, 9)
    defects = read_defects(defects_file, 0, wafer)
    one_wafer, two_wafers = largest_live_meshes(defects, wafer, 1), largest_live_meshes(defects, wafer, 2)
    assert one_wafer[0].shape == (8, 8)  # row 5 has two dead PEs
    assert {mesh.shape for mesh in two_wafers} == {(8, 8)}
    in_corner = corner_meshes(defects, wafer, mesh_on(wafer, 4, 4), 2)
    assert [mesh.fabric.shape for mesh in in_corner] == [(5, 5), (5, 5)]
    assert corner_meshes(defects, wafer, wafer, 1) is None


def test_minimum_number_of_wafers_counts_live_pes(defects_file: str) -> None:
    wafer = mesh_on(load_wafer("wse2"), 9, 9)
    defects = read_defects(defects_file, 0, wafer)

    def wafers_for_150_pes(wafer: WaferSpec) -> int:
        return -(-150 // (wafer.mesh_rows * wafer.mesh_cols))

    assert (
        fewest_wafers_with_defects(wafer, None, wafers_for_150_pes)
        == fewest_wafers_with_defects(wafer, read_defects("0", 0, wafer), wafers_for_150_pes)
        == 2
    )
    # each wafer has 64 usable PEs instead of 81
    assert fewest_wafers_with_defects(wafer, defects, wafers_for_150_pes) == 3


def test_refusal_with_defects_does_not_suggest_a_mesh(defects_file: str) -> None:
    prepared = prepare(make_request(RunRequest, mesh="7x7", defects=defects_file, new_tokens=4, **ONE_REGION))
    with pytest.raises(DoesNotFit) as caught:
        compile_program(prepared)
    assert "--mesh" not in str(caught.value)
