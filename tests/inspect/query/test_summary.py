"""What ``wse inspect`` finds in a trace is what the run reported."""

from __future__ import annotations

import json

import pytest

from tests.inspect.runs import TracedRun, inspect, traced_run


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
