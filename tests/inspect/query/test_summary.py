"""What ``wse inspect`` finds in a trace is what the run reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from interrupted_run import interrupted_run

from tests.models.helpers import write_model
from tests.traces.conftest import write
from wse.cli import main
from wse.errors import BadTrace
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.query.request import InspectRequest, inspect_trace


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A run on two wafers: its report, and its trace."""
    folder = tmp_path_factory.mktemp("traced")
    request = make_request(
        RunRequest, model=str(write_model(folder)), prompt_ids=(1, 2, 3), wafers=2, mesh="3x3", new_tokens=9
    )
    prepared = prepare(request)
    path = folder / "run.h5"
    return execute(prepared, compile_program(prepared), trace=path).to_dict(), path


def test_the_totals_are_those_of_the_run(traced: tuple[dict[str, Any], Path]) -> None:
    report, path = traced
    facts = inspect_trace(InspectRequest(trace=path)).to_dict()
    assert facts["complete"]
    assert facts["report"] == json.loads(json.dumps(report))
    assert facts["prompt_tokens"] == 3
    assert facts["generated_tokens"] == len(report["tokens"])
    assert facts["prefill"]["cycles"] == report["prefill"]["cycles"]
    assert facts["decode"]["cycles_by"] == pytest.approx(report["decode"]["cycles_by"])
    assert facts["decode"]["cycles_per_pass"] == pytest.approx(report["decode"]["cycles_per_token"])
    assert facts["decode"]["wavelet_hops_per_pass"] == pytest.approx(report["fabric"]["wavelet_hops_per_token"])
    assert report["sram"]["bytes_per_pe"] in facts["sram"]["stages"]


def test_the_tree_holds_every_cycle_once(traced: tuple[dict[str, Any], Path]) -> None:
    facts = inspect_trace(InspectRequest(trace=traced[1])).to_dict()
    assert sum(node["decode"] for node in facts["tree"]) == pytest.approx(facts["decode"]["cycles_per_pass"])
    assert [node["layer"] for node in facts["tree"]] == [-1, 0, 1, -1]
    for node in facts["tree"]:
        assert node["decode"] == pytest.approx(sum(op["decode"] for op in node["ops"]))


def test_the_slowest_steps_come_first(traced: tuple[dict[str, Any], Path]) -> None:
    facts = inspect_trace(InspectRequest(trace=traced[1], top=7)).to_dict()
    cycles = [step["cycles"] for step in facts["steps"]]
    assert len(cycles) == 7
    assert cycles == sorted(cycles, reverse=True)
    assert all(sum(step["cycles_by"].values()) == step["cycles"] for step in facts["steps"])
    assert inspect_trace(InspectRequest(trace=traced[1], top=0)).to_dict()["steps"] == []


def test_the_busiest_link_is_the_busiest(traced: tuple[dict[str, Any], Path]) -> None:
    links = inspect_trace(InspectRequest(trace=traced[1])).to_dict()["links"]
    with h5py.File(traced[1]) as file:
        assert links[0]["words"] == np.max(file["links/words"])
    assert [link["words"] for link in links] == sorted((link["words"] for link in links), reverse=True)


@pytest.mark.parametrize("options", [[], ["--tree"], ["--steps", "--top", "3"]], ids=str)
def test_what_is_printed_fits_80_columns(
    traced: tuple[dict[str, Any], Path],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(traced[1].parent)
    assert main(["inspect", "run.h5", *options]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.split("\n"))) <= 80
    assert "incomplete" not in out
    assert out.count("\n") <= 50  # one screen
    told = {
        "": ["Kinds of op", "busiest link", "Costliest steps"],
        "--tree": ["layer 0", "layer 1"],
        "--steps": ["Steps", "the most cycles first"],
    }
    assert all(words in out for words in told[options[0] if options else ""])


def test_layers_that_cost_the_same_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).parents[3] / "traces" / "golden" / "v1"
    assert main(["inspect", str(golden / "story.h5"), "--tree"]) == 0
    assert "each of layers 0–4" in capsys.readouterr().out
    assert main(["inspect", str(golden / "story.h5"), "--tree", "--each-layer"]) == 0
    assert "layer 3 " in capsys.readouterr().out
    assert main(["inspect", str(golden / "story-two-wafers.h5"), "--tree"]) == 0
    out = capsys.readouterr().out
    assert "each of layers 0–4" not in out
    assert "each of layers 1, 4" in out


def test_a_run_that_was_stopped_is_read_up_to_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared = prepare(make_request(RunRequest, model="story", prompt="Once", new_tokens=40, schedule="baseline"))
    partial = interrupted_run(prepared, tmp_path / "run.h5", heard=9)
    with pytest.raises(BadTrace, match=r"run\.h5\.partial is the trace of a run that is in progress or was stopped"):
        inspect_trace(InspectRequest(trace=tmp_path / "run.h5")).to_dict()
    facts = inspect_trace(InspectRequest(trace=partial)).to_dict()
    assert not facts["complete"]
    assert 0 < facts["generated_tokens"] < 40
    assert facts["text"].startswith("Once")
    for options in ([], ["--tree"], ["--steps"], ["--json"]):
        assert main(["inspect", str(partial), *options]) == 0
        out = capsys.readouterr().out
        assert "incomplete" in out or '"complete": false' in out


def test_a_trace_of_another_program_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "other.h5")
    for options in ([], ["--tree"], ["--steps"], ["--json"]):
        assert main(["inspect", str(path), *options]) == 0
    assert "toy <script>" in capsys.readouterr().out
