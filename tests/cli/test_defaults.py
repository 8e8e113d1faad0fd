"""Commands that place a model share their defaults, so that their answers agree without an option."""

from __future__ import annotations

import json

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse
from wse.api import estimate, run
from wse.errors import DoesNotFit
from wse.studies.compare.request import CompareRequest
from wse.studies.compile.request import CompileRequest
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import options_of
from wse.studies.options.placement import PlacementRequest
from wse.studies.pattern.request import PatternRequest
from wse.studies.run.request import RunRequest
from wse.studies.serve.request import ServeRequest

REQUESTS = (RunRequest, CompileRequest, EstimateRequest, CompareRequest, ServeRequest, PatternRequest)
OWN_MAPPING = {ServeRequest: {"mapping"}}
"""A server of many users is placed on whole wafers unless another mapping is given."""
SAME = ("model", "wafer", "system", "prefill", "decode", "crossing", "batch", "rewrites")


@pytest.mark.parametrize("request_type", REQUESTS)
def test_options_of_a_placement_have_one_default(request_type: type) -> None:
    common, options = options_of(PlacementRequest), options_of(request_type)
    shared = options.keys() & common.keys() - OWN_MAPPING.get(request_type, set())
    assert {"wafer", "software", "settings"} <= shared
    assert {name: options[name].default for name in shared} == {name: common[name].default for name in shared}


ASKED: list[tuple[str, ...]] = [
    ("story", "--mesh", "9x9"),
    ("story", "--mesh", "24x24", "--new-tokens", "1"),
    ("story", "--mesh", "9x9", "--batch", "2", "--verify-tokens", "3", "--prompt-len", "20", "--new-tokens", "20"),
    ("story", "--mesh", "6x6", "--wafers", "1", "--capacity", "report"),
    ("story", "--mesh", "16x16", "--prompt-len", "8", "--new-tokens", "8", "--users", "8", "--objective", "cost"),
    ("llama-3.1-70b",),
]


@pytest.mark.parametrize("asked", slow_but(ASKED, *ASKED[:2], ASKED[4]), ids=" ".join)
def test_compilation_shows_the_placement_that_an_estimate_times(wse: Wse, asked: tuple[str, ...]) -> None:
    compiled, estimated = (json.loads(wse(name, *asked, "--json").out) for name in ("compile", "estimate"))
    assert "colours" in compiled["wafer"]
    del compiled["wafer"]["colours"]
    assert {key: compiled.get(key) for key in SAME} == {key: estimated.get(key) for key in SAME}
    assert ("decode" in compiled) == (asked[-2:] != ("--new-tokens", "1"))
    for key in ("bytes_per_pe", "stages", "fits", "kv_capacity_tokens"):
        assert compiled["sram"][key] == estimated["sram"][key]


def test_run_takes_the_smallest_square_that_one_wafer_holds_the_model_on() -> None:
    ran = run(new_tokens=8, trace=None)
    side = ran.wafer.rows
    assert (ran.wafer.name, ran.wafer.cols, ran.system.wafers) == ("wse3", side, 1)
    lengths = {"prompt_len": ran.prompt_tokens, "new_tokens": 8}
    assert estimate("story", mesh=f"{side}x{side}", **lengths).system.wafers == 1
    with pytest.raises(DoesNotFit):
        estimate("story", mesh=f"{side - 1}x{side - 1}", wafers=1, **lengths)
