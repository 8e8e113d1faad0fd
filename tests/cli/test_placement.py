"""Tests of the commands that place a model: shared defaults, equal placements, and remedies that work."""

import json
import math
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
from wse.studies.estimate.layouts.searches import trial_with_room
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, options_of
from wse.studies.options.placement import PlacementRequest
from wse.studies.pattern.request import PatternRequest
from wse.studies.run.request import RunRequest
from wse.studies.serve_sim.request import ServeRequest

REQUESTS = (RunRequest, CompileRequest, EstimateRequest, CompareRequest, ServeRequest, PatternRequest)
DIFFERENT_DEFAULTS = {ServeRequest: {"mapping"}}
"""Options whose default differs: `serve-sim` places a model on whole wafers."""
SHARED_KEYS = ("model", "wafer", "system", "prefill", "decode", "crossing", "batch", "rewrites")


@pytest.mark.parametrize("request_type", REQUESTS)
def test_placement_options_have_the_same_default_in_all_commands(request_type: type) -> None:
    common, options = options_of(PlacementRequest), options_of(request_type)
    shared = options.keys() & common.keys() - DIFFERENT_DEFAULTS.get(request_type, set())
    assert {"wafer", "software", "settings"} <= shared
    assert {name: options[name].default for name in shared} == {name: common[name].default for name in shared}


ONE_TOKEN = ("--mapping", "region", "--schedule", "baseline", "--prompt-len", "8", "--new-tokens", "1")
SHORT = (*ONE_TOKEN[:-1], "8")
OPTIONS: list[tuple[str, ...]] = [
    ("story", "--mesh", "24x24", *ONE_TOKEN),
    ("story", "--mesh", "9x9", *SHORT, "--prefix-tokens", "4", "--batch", "2", "--verify-tokens", "3"),
    ("story", "--mesh", "6x6", *SHORT, "--wafers", "1", "--capacity", "report"),
    ("story", "--mesh", "16x16", *SHORT, "--users", "8", "--objective", "cost"),
]


@pytest.mark.parametrize("options", slow_but(OPTIONS, OPTIONS[1], OPTIONS[3]), ids=" ".join)
def test_compile_and_estimate_report_the_same_placement(wse: Wse, options: tuple[str, ...]) -> None:
    compiled, estimated = (json.loads(wse(name, *options, "--json").out) for name in ("compile", "estimate"))
    assert {key: compiled.get(key) for key in SHARED_KEYS} == {key: estimated.get(key) for key in SHARED_KEYS}
    assert ("decode" in compiled) == (options[-2:] != ("--new-tokens", "1"))
    assert compiled["prefill"]["tokens_per_s"] == estimated["prefill"]["tokens_per_s"]
    for key in ("bytes_per_pe", "stages", "fits", "kv_capacity_tokens"):
        assert compiled["sram"][key] == estimated["sram"][key]


def test_run_uses_the_smallest_square_mesh_that_fits() -> None:
    result = run(new_tokens=8, schedule="baseline", trace=None)
    side = result.wafer.rows
    assert (result.wafer.name, result.wafer.cols, result.system.wafers) == ("wse3", side, 1)
    lengths = {"prompt_len": result.prompt_tokens, "new_tokens": 8, "schedule": "baseline"}
    assert estimate("story", mesh=f"{side}x{side}", **lengths).system.wafers == 1
    with pytest.raises(DoesNotFit):
        estimate("story", mesh=f"{side - 1}x{side - 1}", wafers=1, **lengths)


NUMBERS = re.compile(
    r"needs ([0-9,]+) of ([0-9,]+) bytes, ([0-9,]+) too many: code, stack and runtime [0-9,]+, weights [0-9,]+, "
    r"KV cache [0-9,]+, the rest [0-9,]+; the largest use is [\w ]+, above all \S.* with"
)
COMMON = ["--wafer", "wse2", "--software", "tuned", "--schedule", "baseline", "--prompt-len", "1"]
ONE_WAFER = ["--wafers", "1", *COMMON]
CASES = [
    ["--mesh", "5x5", "--wafers", "2", *COMMON],
    ["--mesh", "12x12", "--region", "4x4", "--mapping", "region", "--new-tokens", "256", *ONE_WAFER],
    ["--mesh", "7x7", "--new-tokens", "500", *ONE_WAFER],
]


def remedies(line: str) -> list[list[str]]:
    """Return the options of each remedy that a refusal names."""
    listed = re.split("(?:any of these|this) would make it fit: ", line)
    return [remedy.partition(" (")[0].split() for remedy in listed[1].split(", ")] if len(listed) == 2 else []


@pytest.mark.parametrize("options", slow_but(CASES, CASES[1]), ids=" ".join)
def test_each_remedy_is_the_smallest_change_that_fits(wse: Wse, test_data: Path, options: list[str]) -> None:
    model = test_data / "models/stories260k"
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
        smaller_change = smaller(remedy)
        if smaller_change:
            assert not fits(model, [*options, *smaller_change]), (smaller_change, line)


@pytest.mark.parametrize(
    "options",
    [
        {"wafers": 1, "users": 20},
        {"wafers": 1, "users": 20, "replicas": 4},
        {"wafers": 2, "users": 20, "batch": 2},
    ],
    ids=str,
)
def test_remedies_of_a_request_with_users_have_room_for_all_of_them(wse: Wse, options: dict[str, int]) -> None:
    given = {"model": "story", "mesh": "8x8", **options}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    line = wse("estimate", "story", "--mesh", "8x8", *arguments).refusal()
    offered = re.findall(r"--(mesh|wafers) ([0-9x]+)", line)
    assert "mesh" in dict(offered), line
    users = math.ceil(options["users"] / options.get("replicas", 1))
    assert ("would make it fit with room for all users: " in line) == (options["wafers"] == 1)
    for name, value in offered:
        changed = given | {name: value if name == "mesh" else int(value)}
        assert trial_with_room(prepare_estimate(make_request(EstimateRequest, **changed)), users) is not None, line
        if name == "mesh":
            side = int(value.partition("x")[0]) - 1
            smaller_request = make_request(EstimateRequest, **changed | {"mesh": f"{side}x{side}"})
            assert trial_with_room(prepare_estimate(smaller_request), users) is None, line


def test_remedies_without_room_for_all_users_say_so(wse: Wse) -> None:
    line = wse("estimate", "story", "--mesh", "8x8", "--wafers", "1", "--users", "1000000").refusal()
    assert "any of these would make it fit, but without room for all users: --mesh 10x10" in line


def test_no_mesh_is_offered_to_users_with_drafts(wse: Wse) -> None:
    """Drafts need memory that the search for a mesh does not take into account."""
    arguments = ["estimate", "story", "--mesh", "8x8", "--wafers", "2", "--users", "200"]
    arguments += ["--prompt-len", "64", "--new-tokens", "32"]
    assert "--mesh" in wse(*arguments).refusal()
    line = wse(*arguments, "--draft", "0.7").refusal()
    assert "with drafts, fewer users may fit" in line
    assert "--mesh" not in line


def fits(model: Path, options: list[str]) -> bool:
    """Return whether a Program with these options fits. If an option occurs twice, the last value is used."""
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
    """Return the remedy changed by one step towards the refused options, or [] if it has no steps."""
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


def test_refusal_states_that_more_wafers_do_not_help(wse: Wse, tmp_path: Path) -> None:
    """One matrix product is too large for all PEs of a wafer, so adding wafers does not help."""
    wide = write_config(tmp_path, hidden_size=512, intermediate_size=4096, num_hidden_layers=2, vocab_size=64)
    line = wse("estimate", wide, "--mesh", "3x3", "--prompt-len", "8", "--new-tokens", "8").refusal()
    expected = ("of each of 2 wafers", "too large for a PE even alone", "up to 2 can store it", "--mesh")
    assert [part for part in expected if part not in line] == [], line
