"""Tables, drawings and the page of a scenario: texts escaped, what is ruled out in grey, the verdict by rule."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.comparison.scenario.scenarios import FIGURE
from wse.studies.scenario.drawing import drawings_of, series_of
from wse.studies.scenario.form import ScenarioForm
from wse.studies.scenario.judge import agreement_of, judged
from wse.studies.scenario.page import scenario_as_html
from wse.studies.scenario.plot import scenario_as_png
from wse.studies.scenario.result import (
    CONSISTENT,
    NEAR,
    RULED_OUT,
    CombinationResult,
    PointResult,
    PredictionResult,
    PublishedResult,
    ScenarioResult,
    TiersResult,
)
from wse.studies.scenario.verdict import verdict_of


def published(**changes: Any) -> PublishedResult:
    own = {"unit": "tokens/s", "relation": "about", "tolerance": 0.25, "decides": True}
    return PublishedResult(**FIGURE | own | changes)


def costs(low: float, value: float, high: float, tier: str = "") -> dict[str, float]:
    """Costs of a million tokens by key, of a tier if it is named."""
    key = f"{tier}usd_per_million_tokens"
    return {f"{key}_low": low, key: value, f"{key}_high": high}


COSTS = costs(15, 20, 40)


def combination(
    model: str, billions: float, speed: float, dollars: Mapping[str, float] = COSTS, **changes: Any
) -> CombinationResult:
    prediction = PredictionResult(
        chips=2,
        users=1,
        most_users=9,
        tokens_per_s_per_user=speed,
        tokens_per_s=speed,
        ttft_s=0.2,
        **dollars,
        joules_per_token=10.0,
        grade="I",
    )
    values: dict[str, Any] = {
        "model": model,
        "parameters": round(1e9 * billions),
        "dtype": "int8",
        "machine": "wafers",
        "kind": "wafer",
        "chips": 2,
        "prompt_len": 32,
        "users": 1,
        "drafts": "none",
        "prediction": prediction,
        "curve": (PointResult(users=1, tokens_per_s_per_user=speed, **dollars),),
    }
    return CombinationResult(**values | changes)


def result(*combinations: CombinationResult, figures: tuple[PublishedResult, ...], **tiers: Any) -> ScenarioResult:
    form = ScenarioForm.model_validate(
        {
            "title": "<i>t</i>",
            "question": "</script>?",
            "models": [{"name": "m"}],
            "machines": [{"wafer": "wse3"}],
            **tiers,
        }
    )
    rows = tuple(judged(one, figures) for one in combinations)
    return ScenarioResult(
        name="s",
        title=form.title,
        question=form.question,
        verdict=verdict_of(form, rows, figures),
        published=figures,
        combinations=rows,
        economics={},
    )


@pytest.mark.parametrize(
    ("relation", "predicted", "agreement"),
    [
        ("about", 750, CONSISTENT),
        ("about", 749, RULED_OUT),
        ("about", 1251, RULED_OUT),
        ("at_least", 5000, CONSISTENT),
        ("at_least", 1000, CONSISTENT),
        ("at_least", 999, NEAR),
        ("at_least", 749, RULED_OUT),
        ("at_most", 1, CONSISTENT),
        ("at_most", 1250, NEAR),
        ("at_most", 1251, RULED_OUT),
    ],
)
def test_agreement_by_relation(relation: Any, predicted: float, agreement: str) -> None:
    assert agreement_of(published(relation=relation), predicted) == agreement


SMALL, LARGE = combination("small", 8, 1100), combination("large", 70, 400)
CANNOT = combination("huge", 400, 0, prediction=None, curve=None, ruled_out_by=("huge does not fit; give more",))
AT_LEAST = published(relation="at_least")


def test_the_verdict_on_sizes() -> None:
    first, second = result(SMALL, LARGE, CANNOT, figures=(AT_LEAST,)).verdict
    assert first == (
        "1 of 3 combinations agree with at least 1,000 tokens/s (a user): on wafers up to 8.0 billion parameters "
        "(small as int8, 2 wafers)."
    )
    assert second == ("Ruled out are 2: 1 by a user below 1,000 tokens/s, 1 by what does not fit or cannot be.")


def test_the_verdict_on_one_model() -> None:
    first, _ = result(LARGE, replace(LARGE, dtype="int4"), figures=(published(value=500),)).verdict
    assert first.startswith(
        "2 of 2 combinations agree with 500 tokens/s (a user); nearest is large as int8 on wafers, 2"
    )
    assert "predicted 400 tokens/s against 500 tokens/s (-20 %)" in first


def test_the_verdict_on_tiers() -> None:
    tiers = TiersResult(
        ordinary_users=64,
        ordinary_tokens_per_s_per_user=40.0,
        **costs(4, 5, 8, "ordinary_"),
        fast_users=8,
        fast_tokens_per_s_per_user=104.0,
        **costs(12, 15, 24, "fast_"),
        speed_up=2.6,
        cost_ratio=3.0,
        reached=True,
    )
    figures = (
        published(figure="speed_up", value=2.5, relation="at_least"),
        published(figure="cost_ratio", value=2.8, relation="at_most"),
    )
    dear = replace(tiers, cost_ratio=6.0)
    made = result(
        combination("a", 1, 40, tiers=tiers),
        combination("b", 1, 40, tiers=dear),
        figures=figures,
        tiers={"plain_speed": 40.0, "speed_up": 2.5},
    )
    first, second = made.verdict
    assert first == (
        "2.5 times the speed of the ordinary tier is reached in 2 of 2 combinations, with 8 users at a time in place "
        "of 64, and a token then costs 3.0 to 6.0 times as much, at any price of the machines."
    )
    assert "1 more are within the tolerance" in second
    assert second.endswith("ruled out are 1: 1 by cost of a fast token above 2.8 times.")
    (ratios, _) = drawings_of(made)
    assert [(point.x, point.y) for point in ratios.published] == [(2.5, 2.8)]
    assert [(point.x, point.y) for point in ratios.lines[0].points] == [(1, 4), (2.6, 3), (1, 1)]


def _cheapest(*combinations: CombinationResult) -> str:
    """The sentence on the cheapest token."""
    return result(*combinations, figures=()).verdict[1]


def test_the_verdict_on_cost_says_whether_it_holds_over_all_prices() -> None:
    wafers = combination("m", 8, 1100, chip="wse3")
    gpus = combination("m", 8, 40, costs(2, 4, 14), chip="h200", machine="eight", kind="gpu")
    assert _cheapest(wafers, gpus).endswith(
        "eight, 2 GPUs, 4.00 (2.00 to 14.00) USD a million at 40 tokens/s a user, over the whole range of all prices."
    )
    overlapping = combination("m", 8, 40, costs(2, 4, 16), chip="h200", machine="eight", kind="gpu")
    assert _cheapest(wafers, overlapping).endswith(
        "a user, at central prices; with its price at the high end and the others' at the low end, with m as int8 on "
        "wafers, 2 wafers, 15.00 against 16.00 USD a million."
    )
    slower = combination("m", 8, 900, costs(30, 40, 80), chip="wse3", machine="four")
    assert _cheapest(wafers, slower).endswith("1,100 tokens/s a user, at any price of the machines.")


def test_what_is_ruled_out_is_grey_and_speeds_without_a_price_stand_at_the_edge() -> None:
    made = result(SMALL, LARGE, CANNOT, figures=(AT_LEAST,))
    drawings = drawings_of(made)
    assert series_of(drawings) == ["small"]
    costs, sizes = drawings
    assert [line.series for line in costs.lines] == ["small", ""]
    assert [line.points[0].y for line in sizes.lines] == [8, 70]
    assert [(point.x, point.y) for point in costs.published] == [(1000, None)]


def test_the_page_is_one_file_and_its_texts_end_no_script() -> None:
    made = result(SMALL, LARGE, CANNOT, figures=(AT_LEAST,))
    page = scenario_as_html(made).decode()
    assert "<i>t" not in page
    assert page.count("</script>") == 2
    assert made.verdict[0] in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert len(data["curves"]) == 2
    assert data["curves"][0]["lines"][0]["points"][0]["x"] == 1100
    assert "nowhere" in page
    assert scenario_as_png(made).startswith(b"\x89PNG")


def test_tables_show_what_cannot_be_once() -> None:
    twice = replace(CANNOT, drafts="head")
    tables = result(SMALL, CANNOT, twice, figures=(AT_LEAST,)).tables()
    (ruled,) = [table for table in tables if table.title == "Ruled out"]
    assert len(ruled.rows) == 1
