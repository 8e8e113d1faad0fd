"""Scenario files: a slip is one line with the place, the value and the remedy; unknown keys have their nearest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.scenario.scenarios import FIGURE, GPU, WAFER, scenario
from tests.hardware.helpers import refusal
from wse.errors import BadInput, BadWafer, UnknownName
from wse.files import TOML_LIMIT_BYTES
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.form import ScenarioForm
from wse.studies.scenario.read import bundled_scenarios, read_scenario

TIERS = {"plain_speed": 64.0, "speed_up": 2.5}
CASES: list[tuple[dict[str, Any], type[BadInput], str]] = [
    ({"modles": []}, UnknownName, "scenario: unknown key 'modles': did you mean 'models'?"),
    ({"machines": [WAFER | {"wafer_s": 2}]}, UnknownName, "scenario: machines[0]: unknown key 'wafer_s': did you mean"),
    ({"title": None}, BadInput, "scenario: has no title; give a title"),
    ({"title": 5}, BadInput, "scenario: title = 5: give a title"),
    ({"models": []}, BadInput, "scenario: models = []: give a list of tables [[models]]"),
    ({"models": {"name": "story"}}, BadInput, "scenario: models = {'name': 'story'}: give a list of tables"),
    ({"prompt_len": 0}, BadInput, "scenario: prompt_len = 0: give a whole number of tokens of at least 1"),
    ({"prompt_len": [64, "many"]}, BadInput, "scenario: prompt_len[1] = 'many': give a whole number of tokens"),
    ({"new_tokens": True}, BadInput, "scenario: new_tokens = True: give a whole number"),
    ({"machines": [WAFER | {"wafers": "all"}]}, BadInput, "scenario: machines[0].wafers = 'all': give a whole number"),
    ({"machines": [{"name": "x"}]}, BadInput, "scenario: machines[0]: has neither wafer nor gpu; give wafer or gpu"),
    ({"machines": [WAFER | {"gpu": "h100"}]}, BadInput, "scenario: machines[0]: wafer and gpu: a machine is one of"),
    ({"machines": [GPU | {"mesh": "24x24"}]}, BadInput, "scenario: machines[0].mesh: is not of a machine with gpu"),
    ({"machines": [WAFER, WAFER]}, BadInput, "scenario: machines: 2 have the name 'small'; give each its own"),
    ({"drafts": [{"acceptance": [0.8, 1.2]}]}, BadInput, "scenario: drafts[0].acceptance[1] = 1.2: give a name"),
    ({"drafts": [{"tokens": 3}]}, BadInput, "scenario: drafts[0].tokens: there is no acceptance; give acceptance"),
    ({"drafts": [{"acceptance": "typical", "place": "moon"}]}, BadInput, "drafts[0].place = 'moon': give \"same\""),
    ({"batch": {"users": -1}}, BadInput, "scenario: batch.users = -1: give a whole number of users"),
    ({"batch": {"policy": "static"}}, BadInput, "scenario: batch.policy: says how requests that arrive are batched"),
    (
        {"batch": {"wait_s": 1.0}, "arrivals": {}},
        BadInput,
        'batch.wait_s: is of static batches; give policy = "static"',
    ),
    ({"arrivals": {"rate": 0}}, BadInput, "scenario: arrivals.rate = 0: give a number of requests a second above 0"),
    ({"arrivals": {"rate": float("nan")}}, BadInput, "scenario: arrivals.rate = nan: give a number of requests"),
    ({"arrivals": {"rate": 1.0, "load": 0.5}}, BadInput, "scenario: arrivals: rate and load: one follows from the"),
    ({"tiers": {"plain_speed": 0.0}}, BadInput, "scenario: tiers.plain_speed = 0.0: give tokens/s of each user"),
    ({"tiers": TIERS | {"speed_up": 1}}, BadInput, "scenario: tiers.speed_up = 1: give a number above 1"),
    ({"tiers": TIERS, "batch": {"users": 2}}, BadInput, "scenario: batch.users: with [tiers] users follow from"),
    ({"tiers": TIERS | {"drafts": "fast"}}, BadInput, "scenario: tiers.drafts: there are no drafts; give [[drafts]]"),
    ({"prices": {"wafer_usd": 3}}, UnknownName, "scenario: prices: unknown key 'wafer_usd': did you mean 'wafer_usd"),
    ({"prices": {"gpu_usd_per_hour": "3"}}, BadWafer, "scenario: prices: gpu_usd_per_hour = '3': "),
    (
        {"prices": {"wafer_power_w": {"value": 23, "unit": "kW"}}},
        BadWafer,
        "scenario: prices: wafer_power_w is given in 'kW': give it in 'W'",
    ),
    ({"published": [FIGURE | {"figure": "speed"}]}, UnknownName, "published[0].figure: unknown figure 'speed'"),
    (
        {"published": [FIGURE | {"unit": "ms"}]},
        BadInput,
        "published[0].unit = 'ms': tokens_per_s_per_user is in tokens",
    ),
    ({"published": [FIGURE | {"value": 0}]}, BadInput, "scenario: published[0].value = 0: give a number above 0"),
    ({"published": [FIGURE | {"tolerance": 2}]}, BadInput, "scenario: published[0].tolerance = 2: give a share"),
    ({"published": [FIGURE | {"machines": "smal"}]}, UnknownName, "published[0].machines: unknown machine 'smal'"),
    ({"published": [FIGURE | {"drafts": "head"}]}, UnknownName, "published[0].drafts: unknown draft 'head'"),
    ({"published": [FIGURE | {"figure": "speed_up"}]}, BadInput, "published[0].figure: speed_up is of [tiers]; give"),
    ({"published": [FIGURE | {"figure": "served_ttft_s"}]}, BadInput, "served_ttft_s is of [arrivals]; give that"),
    (
        {"prompt_len": [*range(1, 64)], "batch": {"users": [*range(1, 64)]}},
        BadInput,
        "63 prompt_len × 63 users are 3,969 combinations; give at most 500",
    ),
]


@pytest.mark.parametrize(("changes", "kind", "says"), CASES, ids=lambda value: str(value)[:50])
def test_a_slip_is_one_line(changes: dict[str, Any], kind: type[BadInput], says: str) -> None:
    text = refusal(kind, read_scenario, scenario(**changes))
    assert says in text
    assert len(text) < 900


def test_numbers_may_have_prefixes() -> None:
    form = read_scenario(scenario(prompt_len=["4k", 64], new_tokens="0.5k", batch={"users": "1k"})).form
    assert (form.prompt_len, form.new_tokens, form.batch.users) == ([4_096, 64], 512, [1_000])


def test_files_are_read_with_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    assert "does not exist" in refusal(BadInput, read_scenario, file)
    file.write_text("title = 1 2")
    assert "not TOML" in refusal(BadInput, read_scenario, file)
    file.write_text("#" * (TOML_LIMIT_BYTES + 1))
    assert "is over 1,048,576 bytes" in refusal(BadInput, read_scenario, file)
    file.write_bytes(b"title = '\xff'")
    assert "not TOML" in refusal(BadInput, read_scenario, file)


def test_a_name_that_is_none_has_its_nearest() -> None:
    assert "did you mean 'fast-mode'?" in refusal(UnknownName, read_scenario, "fast-mod")


def test_the_file_of_the_page_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "scenario.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "own.toml").write_text(block, encoding="utf-8")
    form = read_scenario(tmp_path / "own.toml").form
    assert all(f"`{name}`" in page for name in FIGURES)
    assert {*ScenarioForm.model_fields} - form.model_fields_set == {"tiers"}


@pytest.mark.parametrize("name", bundled_scenarios())
def test_bundled_scenarios_are_sourced(name: str) -> None:
    form = read_scenario(name).form
    assert form.published
    assert any(figure.decides for figure in form.published)
    assert all(figure.source.startswith("https://") and figure.reason for figure in form.published)
