"""Tests of how a scenario is shown: tables, drawings and the HTML page, with escaped texts and a verdict by rule."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.comparison.scenario.scenarios import FIGURE
from wse.reports.output_file import png_of
from wse.studies.results.operating_points import OperatingPointResult
from wse.studies.scenario.drawing import drawings_of, series_of
from wse.studies.scenario.files import scenario_as_html
from wse.studies.scenario.form import CONSISTENT, NEAR, RULED_OUT
from wse.studies.scenario.result import (
    CombinationResult,
    PredictionResult,
    PublishedResult,
    ScenarioResult,
    TiersResult,
)
from wse.studies.scenario.study import agreement_of, compare_with_published, verdict_of


def published(**changes: Any) -> PublishedResult:
    """Return a published figure of 1,000 tokens/s with a tolerance of 25 %, with changes."""
    own = {"unit": "tokens/s", "relation": "about", "tolerance": 0.25, "decides": True}
    return PublishedResult(**FIGURE | own | changes)


def costs(low: float, value: float, high: float, tier: str = "") -> dict[str, float]:
    """Return the range of USD per million tokens with the keys of a result; `tier` is a prefix of the keys."""
    key = f"{tier}usd_per_million_tokens"
    return {f"{key}_low": low, key: value, f"{key}_high": high}


def combination(model: str, billions: float, speed: float, **changes: Any) -> CombinationResult:
    """Return a combination on 2 wafers with one operating point, with changes."""
    point = OperatingPointResult(
        users=1,
        replicas=1,
        ttft_s=0.2,
        request_s=1.0,
        tokens_per_s_per_user=speed,
        tokens_per_s=speed,
        requests_per_s=1.0,
        decoding_users=1.0,
        saturated=False,
        **costs(15, 20, 40),
        joules_per_token=10.0,
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
        "prediction": point.convert(PredictionResult, chips=2, most_users=9, grade="I"),
        "curve": (point,),
    }
    return CombinationResult(**values | changes)


def result(*combinations: CombinationResult, figures: tuple[PublishedResult, ...]) -> ScenarioResult:
    """Return the result of a scenario with these combinations and published figures."""
    rows = tuple(compare_with_published(one, figures) for one in combinations)
    return ScenarioResult(
        name="s",
        title="<i>t</i>",
        question="</script>?",
        verdict=verdict_of(rows, figures),
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
        ("at_least", 1000, CONSISTENT),
        ("at_least", 999, NEAR),
        ("at_least", 749, RULED_OUT),
        ("at_most", 1250, NEAR),
        ("at_most", 1251, RULED_OUT),
    ],
)
def test_agreement_by_relation(relation: Any, predicted: float, agreement: str) -> None:
    assert agreement_of(published(relation=relation), predicted) == agreement


@pytest.mark.parametrize(("draft_tokens", "text"), [(2, "head"), (0, "head: not faster, not used")])
def test_drafts_that_are_not_faster_are_marked(draft_tokens: int, text: str) -> None:
    one = combination("small", 8, 1100, drafts="head")
    speculation: Any = SimpleNamespace(draft_tokens=draft_tokens)
    assert one.prediction is not None
    assert replace(one, prediction=replace(one.prediction, speculation=speculation)).drafts_text == text
    assert replace(one, prediction=None).drafts_text == "head"


SMALL, LARGE = combination("small", 8, 1100), combination("large", 70, 400)
IMPOSSIBLE = combination("huge", 400, 0, prediction=None, curve=None, ruled_out_by=("huge does not fit; give more",))
AT_LEAST = published(relation="at_least")


TIERS = TiersResult(
    plain_users=64,
    plain_tokens_per_s_per_user=40.0,
    **costs(4, 5, 8, "plain_"),
    fast_users=8,
    fast_tokens_per_s_per_user=104.0,
    **costs(12, 15, 24, "fast_"),
    speed_up=2.6,
    cost_ratio=3.0,
    reached=True,
)


def test_agreement_of_a_combination_is_that_of_its_worst_deciding_figure() -> None:
    figures = (
        published(figure="speed_up", value=2.5, relation="at_least"),
        published(figure="cost_ratio", value=2.8, relation="at_most"),
        published(figure="speed_up", value=9, decides=False),
    )
    expensive = replace(TIERS, cost_ratio=6.0)
    made = result(combination("a", 1, 40, tiers=TIERS), combination("b", 1, 40, tiers=expensive), figures=figures)
    assert [one.agreement for one in made.combinations] == [NEAR, RULED_OUT]
    assert made.combinations[1].ruled_out_by == ("cost of a fast token: 6 times, published at most 2.8 times",)
    (ratios, _) = drawings_of(made)
    assert [(point.x, point.y) for point in ratios.public] == [(2.5, 2.8), (9, 2.8)]
    assert [(point.x, point.y) for point in ratios.lines[0].points] == [(1, 4), (2.6, 3), (1, 1)]
    assert "Tiers that agree" not in [table.title for table in made.tables()]
    assert "Tiers" in [table.title for table in made.tables()]


def test_ruled_out_combinations_are_grey_and_published_speeds_need_no_price() -> None:
    made = result(SMALL, LARGE, IMPOSSIBLE, figures=(AT_LEAST,))
    drawings = drawings_of(made)
    assert series_of(drawings) == ["small"]
    costs, sizes = drawings
    assert [line.series for line in costs.lines] == ["small", ""]
    assert [line.points[0].y for line in sizes.lines] == [8, 70]
    assert [(point.x, point.y) for point in costs.public] == [(1000, None)]


def test_page_is_one_file_with_escaped_texts() -> None:
    made = result(SMALL, LARGE, IMPOSSIBLE, figures=(AT_LEAST,))
    page = scenario_as_html(made).decode()
    assert "<i>t" not in page
    assert page.count("</script>") == 2
    assert made.verdict[0] in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert len(data["curves"]) == 2
    assert data["curves"][0]["lines"][0]["points"][0]["x"] == 1100
    assert "nowhere" in page
    assert png_of(made.plot()).startswith(b"\x89PNG")


def test_predictions_are_sorted_by_value_and_columns_of_tiers_have_different_titles() -> None:
    """The cells of a prediction have the number as their value, by which the page sorts them."""
    rows = (combination("a", 8, 900.0), combination("b", 8, 1_000.0, tiers=TIERS))
    for row, key, value in (
        (rows[0], "prediction.tokens_per_s_per_user", 900.0),
        (rows[1], "tiers.fast_tokens_per_s_per_user", 104.0),
    ):
        table = result(row, figures=(published(),)).tables(detail=True)[1]
        titles = [column.title for column in table.columns]
        assert len(set(titles)) == len(titles)
        column = next(column for column in table.columns if column.key == key)
        assert [cell.value for cell in table.cells(column)] == [value]
