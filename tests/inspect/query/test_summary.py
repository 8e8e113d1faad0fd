"""What ``wse inspect`` finds in a trace is what the run reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interrupted_run import interrupted_run

from tests.inspect.runs import TracedRun, inspect, traced_run
from wse.errors import BadTrace
from wse.studies.options.option import make_request
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> TracedRun:
    """A run on two wafers."""
    folder = tmp_path_factory.mktemp("traced")
    return traced_run(folder, prompt_ids=(1, 2, 3), wafers=2, mesh="3x3", new_tokens=9)


def test_totals_are_those_of_the_run(traced: TracedRun) -> None:
    _, report, path = traced
    facts = inspect(path)
    assert facts["complete"]
    assert facts["report"] == json.loads(json.dumps(report))
    assert facts["prompt_tokens"] == 3
    assert facts["generated_tokens"] == len(report["tokens"])
    assert facts["prefill"]["cycles"] == report["prefill"]["cycles"]
    assert facts["decode"]["cycles_by"] == pytest.approx(report["decode"]["cycles_by"])
    assert facts["decode"]["cycles_per_pass"] == pytest.approx(report["decode"]["cycles_per_token"])
    assert facts["decode"]["wavelet_hops_per_pass"] == pytest.approx(report["fabric"]["wavelet_hops_per_token"])
    assert report["sram"]["bytes_per_pe"] in facts["sram"]["stages"]


def test_tree_holds_every_cycle_once(traced: TracedRun) -> None:
    facts = inspect(traced.path)
    assert sum(node["decode"] for node in facts["tree"]) == pytest.approx(facts["decode"]["cycles_per_pass"])
    assert [node["layer"] for node in facts["tree"]] == [-1, 0, 1, -1]
    for node in facts["tree"]:
        assert node["decode"] == pytest.approx(sum(op["decode"] for op in node["ops"]))


def test_run_that_was_stopped_is_read_up_to_there(tmp_path: Path) -> None:
    prepared = prepare(make_request(RunRequest, model="story", prompt="Once", new_tokens=40, schedule="baseline"))
    partial = interrupted_run(prepared, tmp_path / "run.h5", heard=9)
    with pytest.raises(BadTrace, match=r"run\.h5\.partial is the trace of a run that is in progress or was stopped"):
        inspect(tmp_path / "run.h5")
    facts = inspect(partial)
    assert not facts["complete"]
    assert 0 < facts["generated_tokens"] < 40
    assert facts["text"].startswith("Once")
