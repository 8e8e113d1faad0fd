"""Tests of scenario results: predictions, comparison with published figures, tiers and prices."""

import pytest

import wse
from tests.comparison.scenario.scenarios import FIGURE, GPU, LENGTHS, WAFER, scenario
from tests.hardware.helpers import refusal
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.reports.result import as_json
from wse.studies.scenario import study
from wse.studies.scenario.form import CONSISTENT, NEAR, RULED_OUT
from wse.studies.scenario.result import CombinationResult
from wse.studies.scenario.study import answer

DRAFTS = [{"name": "none"}, {"name": "best", "draft": "0.9,0.8"}]


pytestmark = pytest.mark.xdist_group("scenarios")  # one worker runs all, because tests share cached estimates


def speed(combination: CombinationResult) -> float:
    """Return the predicted tokens/s of one user."""
    return combination.prediction.tokens_per_s_per_user


def test_figures_rule_out_a_combination_only_if_they_decide() -> None:
    plain = speed(answer(scenario(), jobs=1).combinations[0])
    figures = [
        FIGURE | {"value": 0.9 * plain, "relation": "at_least"},
        FIGURE | {"value": 1.1 * plain, "relation": "at_least", "tolerance": 0.2},
        FIGURE | {"value": 3 * plain, "decides": False},
    ]
    (found,) = answer(scenario(published=figures), jobs=1).combinations
    assert [row.agreement for row in found.against] == [CONSISTENT, NEAR, RULED_OUT]
    assert found.against[2].error_pct == pytest.approx(-100 * 2 / 3)
    assert (found.agreement, found.ruled_out_by) == (NEAR, None)
    (ruled,) = answer(scenario(published=[FIGURE | {"value": 3 * plain}]), jobs=1).combinations
    assert ruled.agreement == RULED_OUT
    assert ruled.ruled_out_by[0].startswith("a user: ")


def test_combination_that_does_not_fit_is_ruled_out_with_the_reason() -> None:
    models = [{"model": ["story", "llama-3-8b"], "dtype": "float16"}]
    result = answer(scenario(models=models, machines=[WAFER | {"wafers": 1}], published=[FIGURE]), jobs=1)
    story, large = result.combinations
    assert story.prediction is not None
    assert large.prediction is None
    assert large.agreement == RULED_OUT
    assert "does not fit" in large.ruled_out_by[0]


def test_scenario_without_a_possible_combination_is_refused() -> None:
    text = refusal(DoesNotFit, answer, scenario(models=[{"model": "llama-3-8b"}], machines=[WAFER | {"wafers": 1}]))
    assert "none of 1 combination is possible" in text


def test_prices_of_a_scenario_replace_the_bundled_prices() -> None:
    machines = [WAFER, GPU]
    plain = answer(scenario(machines=machines), jobs=1)
    prices = {"wafer_usd_per_hour": 6.445, "gpu_usd_per_hour": {"h100": 29.5}}
    expensive = answer(scenario(machines=machines, prices=prices), jobs=1)
    ratios = [
        after.prediction.usd_per_million_tokens / before.prediction.usd_per_million_tokens
        for before, after in zip(plain.combinations, expensive.combinations, strict=True)
        if before.prediction and after.prediction
    ]
    assert ratios == pytest.approx([0.1, 10])
    assert expensive.economics["wafer_usd_per_hour.wse3"].value == 6.445
    assert expensive.economics["gpu_usd_per_hour.h100"].grade == "U"


def test_price_option_overrides_the_prices_of_a_scenario() -> None:
    values = scenario(machines=[WAFER, GPU], prices={"wafer_usd_per_hour": 1.0}, title="prices of an option")
    stated = answer(values, jobs=1, price="wse3=50,h100=3,b200=1")
    plain = answer(values, jobs=1)
    assert stated.economics["wafer_usd_per_hour.wse3"].value == 50
    assert stated.economics["gpu_usd_per_hour.h100"].value == 3
    wafers, gpus = (combination.prediction for combination in stated.combinations)
    before, _ = (combination.prediction for combination in plain.combinations)
    assert wafers.usd_per_million_tokens == pytest.approx(50 * before.usd_per_million_tokens)
    assert gpus.usd_per_million_tokens_low == gpus.usd_per_million_tokens == gpus.usd_per_million_tokens_high
    assert stated.verdict[-1] == "Note: --price of b200 has no effect."
    assert plain.verdict == stated.verdict[:-1]


@pytest.mark.parametrize(
    ("price", "kind", "message"),
    [
        ("wafers=3", UnknownName, "--price: unknown wafer or GPU 'wafers': did you mean 'wafer'?"),
        ("wafer=3,wse3=4", BadInput, "--price: wafer and wse3 are the same wafer; keep one"),
    ],
)
def test_price_option_of_a_scenario_is_checked(price: str, kind: type[BadInput], message: str) -> None:
    assert refusal(kind, answer, scenario(machines=[WAFER, GPU]), price=price).startswith(message)


TIERS = {"plain_speed": [60, 200, 5_000, 6_000], "speed_up": 2.0}
EIGHT_H200 = {"gpu": "h200", "gpus": 8, "stack": "trtllm"}


def test_fast_tier_is_the_largest_that_is_fast_enough() -> None:
    table = scenario(models=[{"model": "llama-3.1-70b", "dtype": "fp8"}], machines=[EIGHT_H200], tiers=TIERS)
    first, second, *impossible = answer(table, jobs=1).combinations
    assert [one.prediction for one in impossible] == [None, None]  # both are listed
    assert second.tiers is None or second.tiers.plain_users < first.tiers.plain_users
    tiers = first.tiers

    def rate(users: int) -> tuple[float, float]:
        asked = {"gpu": "h200", "gpus": 8, "stack": "trtllm", "dtype": "fp8", "batch": users}
        result = wse.estimate("llama-3.1-70b", **asked, **LENGTHS)
        return result.decode.tokens_per_s_per_user, result.cost.usd_per_million_tokens

    slow, quick = rate(tiers.plain_users), rate(tiers.fast_users)
    assert slow[0] >= 60 > rate(tiers.plain_users + 1)[0]
    assert tiers.plain_tokens_per_s_per_user == pytest.approx(slow[0])
    assert quick[0] >= 120 > rate(tiers.fast_users + 1)[0]
    assert tiers.speed_up == pytest.approx(quick[0] / slow[0])
    assert tiers.cost_ratio == pytest.approx(quick[1] / slow[1])


def test_unreachable_fast_tier_has_one_user_and_is_ruled_out() -> None:
    machines, models = [EIGHT_H200], [{"model": "llama-3.1-70b", "dtype": "fp8"}]
    tiers = {"plain_speed": 100.0, "speed_up": 50.0}
    figures = [FIGURE | {"figure": "speed_up", "value": 50, "relation": "at_least"}]
    result = answer(scenario(models=models, machines=machines, tiers=tiers, published=figures), jobs=1)
    (found,) = result.combinations
    assert not found.tiers.reached
    assert found.tiers.fast_users == 1
    assert found.agreement == RULED_OUT


@pytest.mark.slow
def test_drafts_for_the_fast_tier_do_not_change_the_plain_tier() -> None:
    table = {"models": [{"model": "llama-3.1-70b", "dtype": "fp8"}], "machines": [EIGHT_H200], "drafts": DRAFTS}
    tiers = {"plain_speed": 60.0, "speed_up": 2.0}
    both, fast = (answer(scenario(**table, tiers=tiers | {"drafts": which}), jobs=1) for which in ("both", "fast"))
    plain, drafted = fast.combinations
    assert drafted.tiers.plain_tokens_per_s_per_user == plain.tiers.plain_tokens_per_s_per_user
    assert drafted.tiers.fast_users > plain.tiers.fast_users
    assert both.combinations[1].tiers.plain_users > plain.tiers.plain_users


def test_figure_of_one_machine_is_not_compared_with_another() -> None:
    figures = [FIGURE | {"machines": ["one H100"], "dtypes": ["float16"], "drafts": ["none"]}]
    result = answer(scenario(machines=[WAFER, GPU], published=figures), jobs=1)
    assert [row.agreement is None for row in result.combinations] == [True, False]


def test_users_beyond_the_capacity_of_the_kv_cache_are_ruled_out() -> None:
    result = answer(scenario(machines=[GPU], users=[1, 1_000_000]), jobs=1)
    assert result.combinations[1].ruled_out_by is not None


@pytest.mark.slow
def test_layout_with_drafts_has_room_for_all_users() -> None:
    """Reserve cache memory for all users when drafts are used.

    Without drafts, a layout that is faster but has 22 places is chosen, on which some users wait. With drafts, users
    without a place would be refused.
    """
    machine = {"wafer": "wse3", "mesh": "16x16", "wafers": 1, "mapping": "pipeline", "schedule": "baseline"}
    draft = {"name": "d", "draft": "0.8,0.7", "draft_model": "story-draft", "draft_place": "host"}
    result = answer(scenario(machines=[machine], drafts=[draft], users=[25], prompt_len=100, new_tokens=56), jobs=1)
    assert result.combinations[0].ruled_out_by is None


def test_scenario_from_the_cache_equals_the_computed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = scenario(machines=[WAFER, GPU], drafts=DRAFTS, published=[FIGURE], title="tokens/s of a cached scenario")
    expected = answer(values, jobs=1)
    monkeypatch.setattr(study, "_answer", None)
    assert as_json(answer(values, jobs=1)) == as_json(expected)
    with pytest.raises(TypeError):
        answer(values | {"title": "another title"}, jobs=1)
