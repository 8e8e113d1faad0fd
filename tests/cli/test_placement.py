"""Commands that place a model: equal defaults, and refusals whose remedies work."""

import json
import re
from pathlib import Path

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse
from tests.models.helpers import write_config
from wse.api import estimate, run
from wse.errors import DoesNotFit
from wse.studies.compare.request import CompareRequest
from wse.studies.compile.choose import compile_fastest
from wse.studies.compile.request import CompileRequest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, options_of
from wse.studies.options.placement import PlacementRequest
from wse.studies.pattern.request import PatternRequest
from wse.studies.run.request import RunRequest
from wse.studies.serve_sim.request import ServeRequest

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


SHORT = ("--prompt-len", "8", "--new-tokens", "8", "--schedule", "baseline")
ASKED: list[tuple[str, ...]] = [
    ("story", "--mesh", "9x9"),
    ("story", "--mesh", "24x24", *SHORT, "--new-tokens", "1"),
    ("story", "--mesh", "9x9", "--batch", "2", "--verify-tokens", "3", "--prompt-len", "20", "--new-tokens", "20"),
    ("story", "--mesh", "6x6", "--wafers", "1", "--capacity", "report"),
    ("story", "--mesh", "16x16", *SHORT, "--users", "8", "--objective", "cost"),
]


@pytest.mark.parametrize("asked", slow_but(ASKED, *ASKED[:2], ASKED[4]), ids=" ".join)
def test_compilation_shows_the_placement_that_an_estimate_times(wse: Wse, asked: tuple[str, ...]) -> None:
    compiled, estimated = (json.loads(wse(name, *asked, "--json").out) for name in ("compile", "estimate"))
    assert {key: compiled.get(key) for key in SAME} == {key: estimated.get(key) for key in SAME}
    assert ("decode" in compiled) == (asked[-2:] != ("--new-tokens", "1"))
    for key in ("bytes_per_pe", "stages", "fits", "kv_capacity_tokens"):
        assert compiled["sram"][key] == estimated["sram"][key]


def test_run_takes_the_smallest_square_that_one_wafer_holds_the_model_on() -> None:
    ran = run(new_tokens=8, schedule="baseline", trace=None)
    side = ran.wafer.rows
    assert (ran.wafer.name, ran.wafer.cols, ran.system.wafers) == ("wse3", side, 1)
    lengths = {"prompt_len": ran.prompt_tokens, "new_tokens": 8, "schedule": "baseline"}
    assert estimate("story", mesh=f"{side}x{side}", **lengths).system.wafers == 1
    with pytest.raises(DoesNotFit):
        estimate("story", mesh=f"{side - 1}x{side - 1}", wafers=1, **lengths)


NUMBERS = re.compile(
    r"needs ([0-9,]+) of ([0-9,]+) bytes, ([0-9,]+) too many: code [0-9,]+, weights [0-9,]+, "
    r"KV cache [0-9,]+, the rest [0-9,]+; the largest use is [\w ]+, above all \S.* with"
)
DOES_NOT_FIT_ASKED = ["--wafer", "wse2", "--software", "tuned", "--schedule", "baseline", "--prompt-len", "1"]
ONE_WAFER = ["--wafers", "1", *DOES_NOT_FIT_ASKED]
CASES = [
    ["--mesh", "5x5", "--wafers", "2", *DOES_NOT_FIT_ASKED],
    ["--mesh", "12x12", "--region", "4x4", "--mapping", "region", "--new-tokens", "256", *ONE_WAFER],
    ["--mesh", "7x7", "--new-tokens", "500", *ONE_WAFER],
    ["--mesh", "4x4", "--dtype", "float16", "--accumulate", "float16", *ONE_WAFER],
    ["--mesh", "2x2", "--dtype", "int8", *ONE_WAFER],
]


def remedies(line: str) -> list[list[str]]:
    """The options that a refusal names."""
    listed = re.split("(?:any of these|this) would make it fit: ", line)
    return [remedy.split() for remedy in listed[1].split(", ")] if len(listed) == 2 else []


@pytest.mark.parametrize("options", slow_but(CASES, CASES[1]), ids=" ".join)
def test_every_remedy_compiles_and_a_smaller_change_does_not(wse: Wse, shared: Path, options: list[str]) -> None:
    model = shared / "models/stories260k"
    line = wse("compile", model, *options).refusal()
    found = NUMBERS.search(line)
    assert found, line
    needed, available, too_many = (int(n.replace(",", "")) for n in found.groups())
    assert needed - available == too_many > 0
    assert available == 49152
    offered = remedies(line)
    assert offered, line
    for remedy in offered:
        assert fits(model, [*options, *remedy]), (remedy, line)
        less = smaller(remedy)
        if less:
            assert not fits(model, [*options, *less]), (less, line)


def fits(model: Path, options: list[str]) -> bool:
    """Whether what the command compiles for these options fits; the last of an option counts, as there."""
    given = {
        name.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for name, value in zip(options[::2], options[1::2], strict=True)
    }
    try:
        compile_fastest(prepare_estimate(make_request(EstimateRequest, model=str(model), **given)))
    except DoesNotFit:
        return False
    return True


def smaller(remedy: list[str]) -> list[str]:
    """The next smaller change, empty where there is none."""
    match remedy:
        case ["--mesh", size]:
            side = int(size.split("x")[0]) - 1
            return ["--mesh", f"{side}x{side}"]
        case ["--wafers", count]:
            return ["--wafers", str(int(count) - 1)]
        case ["--context", context]:
            return ["--context", str(int(context) + 1)]
        case ["--context", context, "--new-tokens", tokens]:
            return ["--context", str(int(context) + 1), "--new-tokens", tokens]
    return []


def test_refusal_of_what_fits_no_number_of_wafers_says_so(wse: Wse, tmp_path: Path) -> None:
    """A single product that is too large for all PEs of a wafer."""
    wide = write_config(tmp_path, hidden_size=512, intermediate_size=4096, num_hidden_layers=2, vocab_size=64)
    line = wse("estimate", wide, "--mesh", "3x3", "--prompt-len", "8", "--new-tokens", "8").refusal()
    parts = ("of each of 2 wafers", "too large for a PE even alone", "up to 2 can store it", "--mesh")
    assert [part for part in parts if part not in line] == [], line
