"""Tests of reading scenario files: the settings that a file describes, and one-line errors for mistakes in it."""

from pathlib import Path
from typing import Any

import pytest

from tests.comparison.scenario.scenarios import FIGURE, GPU, WAFER, scenario
from tests.hardware.helpers import refusal
from wse.errors import BadInput, BadWafer, UnknownName
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.request import bundled_scenarios, read_scenario

TIERS = {"plain_speed": 64.0, "speed_up": 2.5}
CASES: list[tuple[dict[str, Any], type[BadInput], str]] = [
    ({"modles": []}, UnknownName, "scenario: unknown key 'modles': did you mean 'models'?"),
    ({"machines": [WAFER | {"wafer_s": 2}]}, UnknownName, "scenario: machines[0]: unknown setting 'wafer_s': did you"),
    ({"machines": [WAFER | {"wafer": "wse33"}]}, BadInput, "machines[0]: unknown wafer 'wse33': did you mean"),
    ({"machines": [GPU | {"gpu": "h1000"}]}, BadInput, "machines[0]: unknown GPU 'h1000': did you mean"),
    ({"machines": [GPU | {"stack": "vlm"}]}, BadInput, "machines[0]: unknown stack 'vlm': did you mean 'vllm'"),
    ({"models": [{"model": "stroy"}]}, BadInput, "models[0]: unknown model or folder 'stroy': did you mean 'story'"),
    ({"models": [{"name": "story"}]}, BadInput, "scenario: models[0]: has no model, or a name; give model"),
    ({"title": None}, BadInput, "scenario: has no title; give a title"),
    ({"title": 5}, BadInput, "scenario: title = 5: give a title"),
    ({"models": []}, BadInput, "scenario: models = []: give a list of tables [[models]]"),
    ({"models": {"model": "story"}}, BadInput, "scenario: models = {'model': 'story'}: give a list of tables"),
    ({"prompt_len": [64, "many"]}, BadInput, "scenario: prompt_len = 'many': give a whole number"),
    ({"machines": [WAFER | {"wafers": "all"}]}, BadInput, "scenario: machines[0]: wafers = 'all': give a whole number"),
    ({"machines": [WAFER | {"name": 3}]}, BadInput, "scenario: machines[0].name = 3: give a text"),
    (
        {"machines": [GPU | {"mesh": "24x24"}]},
        BadInput,
        "scenario: --gpu h100: --mesh applies to wafers only; leave it out",
    ),
    ({"machines": [WAFER, WAFER]}, BadInput, "scenario: machines: 2 tables have the name 'small'; give each its own"),
    ({"drafts": [{"draft": "0.8,1.2"}]}, BadInput, "scenario: --draft 0.8,1.2"),
    ({"replicas": 2}, BadInput, "scenario: replicas: a scenario is of one machine; leave it out"),
    ({"think_time": 2.0}, BadInput, "scenario: think_time: users of a scenario do not pause; leave it out"),
    ({"tiers": {"plain_speed": 0.0}}, BadInput, "scenario: tiers: plain_speed = 0.0: give tokens/s of each user"),
    ({"tiers": {"plain_speed": "fast"}}, BadInput, "scenario: tiers: plain_speed = 'fast': give tokens/s of each user"),
    ({"prices": {"wafer_power_w": "23kV"}}, BadWafer, "scenario: prices: wafer_power_w = '23kV': give a number (in W)"),
    ({"tiers": TIERS | {"speed_up": 1}}, BadInput, "scenario: tiers: speed_up = 1: give a number above 1"),
    ({"tiers": TIERS | {"speedup": 1}}, UnknownName, "scenario: tiers: unknown key 'speedup': did you mean 'speed_up'"),
    ({"tiers": TIERS, "users": 2}, BadInput, "scenario: users: with [tiers] users follow from the speed"),
    ({"tiers": TIERS | {"drafts": "fast"}}, BadInput, "scenario: tiers.drafts: there are no drafts; add [[drafts]]"),
    ({"prices": {"wafer_usd": 3}}, UnknownName, "scenario: prices: unknown key 'wafer_usd': did you mean 'wafer_usd"),
    ({"published": [FIGURE | {"figure": "speed"}]}, UnknownName, "published[0].figure: unknown figure 'speed'"),
    ({"published": [FIGURE | {"unit": "ms"}]}, BadInput, "published[0].unit = 'ms': tokens_per_s_per_user is in tok"),
    ({"published": [FIGURE | {"value": 0}]}, BadInput, "scenario: published[0]: value = 0: give a number above 0"),
    ({"published": [FIGURE | {"machines": "smal"}]}, UnknownName, "published[0].machines: unknown machine 'smal'"),
    ({"published": [FIGURE | {"drafts": "head"}]}, UnknownName, "published[0].drafts: unknown draft 'head'"),
    ({"published": [FIGURE | {"figure": "speed_up"}]}, BadInput, "published[0].figure: speed_up needs tiers; add the"),
    ({"prompt_len": [*range(1, 64)], "users": [*range(1, 64)]}, BadInput, "3,969 combinations are too many; give at m"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), CASES, ids=lambda value: str(value)[:50])
def test_mistake_is_a_short_error(changes: dict[str, Any], kind: type[BadInput], message: str) -> None:
    text = refusal(kind, read_scenario, scenario(**changes))
    assert message in text
    assert len(text) < 900


def test_settings_are_the_products_of_models_machines_drafts_and_axes() -> None:
    drafts = [{}, {"name": "head", "draft": "0.9,0.8"}]
    table = scenario(
        machines=[WAFER, GPU], drafts=drafts, prompt_len=["4k", 64], users="1k", prices={"wafer_power_w": "2kW"}
    )
    settings = read_scenario(table).settings
    names = {(one.machine, one.drafts, one.request.workload.prompt_len) for one in settings}
    assert names == {(m, d, p) for m in ("small", "one H100") for d in ("none", "head") for p in (4_096, 64)}
    assert {(one.request.serving.users, one.request.workload.new_tokens) for one in settings} == {(1_000, 32)}
    assert {one.request.draft for one in settings} == {None, "0.9,0.8"}
    assert all(one.request.costs.economics == {"wafer_power_w": "2kW"} for one in settings)
    assert {
        one.request.machine.wafer if one.request.gpu is None else one.request.gpu_serving.stack for one in settings
    } == {"wse3", "vllm"}


def test_numbers_of_a_scenario_may_be_written_as_on_the_command_line() -> None:
    figure = FIGURE | {"value": "1.5k"}
    read = read_scenario(scenario(tiers={"plain_speed": ["1k", 50], "speed_up": "2.5"}, published=[figure]))
    assert read.tiers is not None
    assert (read.tiers.plain_speed, read.tiers.speed_up, read.published[0].value) == ((1_000, 50), 2.5, 1_500)


def test_example_can_be_read_and_the_page_lists_the_figures() -> None:
    docs = Path(__file__).parents[3] / "docs"
    assert read_scenario(docs / "examples" / "scenario.toml").published
    page = (docs / "how-to" / "scenario.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in FIGURES)


@pytest.mark.parametrize("name", bundled_scenarios())
def test_bundled_scenarios_have_sources(name: str) -> None:
    published = read_scenario(name).published
    assert any(figure.decides for figure in published)
    assert all(figure.source.startswith("https://") and figure.evidence for figure in published)


def test_settings_name_their_values_of_further_axes() -> None:
    settings = read_scenario(scenario(machines=[WAFER | {"mapping": ["bands", "pipeline"]}])).settings
    assert [one.other for one in settings] == [{"mapping": "bands"}, {"mapping": "pipeline"}]
