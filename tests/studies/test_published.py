"""Tests of the published speeds in a report: which ones are shown next to an estimate, and their ratios."""

from dataclasses import replace
from typing import Any

import pytest

import wse
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.reports.intervals import RangeResult
from wse.studies.options.option import replace_options
from wse.studies.results.answer import outside_sentence
from wse.studies.results.published import EstimatedSpeed, published_speeds, weight_bits

ON_WAFERS = EstimatedSpeed(
    machine="wse3", chips=4, same_chips_only=False, users=1, dtype="bfloat16", tokens_per_s_per_user=900.0
)


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    """Return Llama-3.1-70B. Published speeds of models with the same layers, such as Llama-3.3-70B, apply to it."""
    return load_model("llama-3.1-70b", with_weights=False).spec


def speeds_of(spec: ModelSpec, estimated: EstimatedSpeed) -> list[tuple[float, str | None, float]]:
    """Return (tokens/s/user, "no", "yes" or "unknown" drafts, ratio of the estimate) of each published speed."""
    return [(s.tokens_per_s_per_user, s.drafts, s.ratio) for s in published_speeds(spec, estimated) or ()]


def test_fastest_speed_with_and_without_drafts_is_shown(spec: ModelSpec) -> None:
    published = {"no": 450.0, "yes": 2148.0, "unknown": 2314.0}
    assert speeds_of(spec, ON_WAFERS) == [(s, word, pytest.approx(900 / s)) for word, s in published.items()]
    drafted = replace(ON_WAFERS, drafted_tokens_per_s_per_user=1074.0, draft_chips=1)
    assert [ratio for _, _, ratio in speeds_of(spec, drafted)] == pytest.approx([2.0, 0.5, 1074 / 2314])
    assert [speed.estimated_chips for speed in published_speeds(spec, drafted) or ()] == [4, 5, 5]


def test_published_speed_outside_the_interval_is_reported(spec: ModelSpec) -> None:
    speeds = published_speeds(spec, ON_WAFERS)
    for low, high, side in ((460, 1800, "below"), (200, 440, "above"), (440, 1800, "")):
        interval = RangeResult(value=900.0, low=low, high=high, samples=8)
        lengths = "it may have been measured with other prompt and answer lengths"
        expected = (
            f"450 tokens/s, published without drafts, is {side} the interval of the estimate; {lengths}."
            if side
            else ""
        )
        assert outside_sentence(speeds, interval, users=1, inputs={}) == expected
        assert outside_sentence(speeds, interval, users=2, inputs={}) == ""
    changed = outside_sentence(speeds, replace(interval, high=400.0), users=1, inputs={"wafer.clock_hz": 2e9})
    assert "clock_hz" in changed


def test_speeds_with_unknown_drafts_are_shown() -> None:
    spec = load_model("gpt-oss-120b", with_weights=False).spec
    (speed,) = published_speeds(spec, replace_options(ON_WAFERS, dtype="mxfp4")) or ()
    assert (speed.tokens_per_s_per_user, speed.drafts, speed.chips) == (3000.0, "unknown", None)


@pytest.mark.parametrize(
    "change", [{"machine": "cs4"}, {"machine": "mine"}, {"users": 8}, {"machine": "wse2"}], ids=str
)
def test_other_machines_and_numbers_of_users_have_no_published_speed(spec: ModelSpec, change: dict[str, Any]) -> None:
    assert published_speeds(spec, replace(ON_WAFERS, **change)) is None


def test_speeds_with_another_width_of_weights_are_left_out(spec: ModelSpec) -> None:
    assert {s.weight_bits for s in published_speeds(spec, replace_options(ON_WAFERS, dtype="fp8")) or ()} == {None}
    assert [weight_bits(dtype) for dtype in ("float16", "fp8", "int4", "nvfp4", "mxfp4")] == [16, 8, 4, 4, 4]


def test_gpu_benchmarks_match_the_numbers_of_gpus_and_users(spec: ModelSpec) -> None:
    estimated = EstimatedSpeed(
        machine="h200", chips=8, same_chips_only=True, users=16, dtype="fp8", tokens_per_s_per_user=94.0
    )
    (speed,) = published_speeds(spec, estimated) or ()
    assert (speed.machine, speed.chips, speed.users, speed.weight_bits) == ("h200", 8, 16, 8)
    assert speed.ratio == 94.0 / speed.tokens_per_s_per_user
    assert published_speeds(spec, replace(estimated, chips=3)) is None
    assert published_speeds(spec, replace(estimated, users=17)) is None


def test_gpu_estimate_lists_the_speeds_of_its_gpu() -> None:
    result = wse.estimate("llama-3-8b", gpu="h100", gpus=1)
    assert [(s.drafts, s.chips) for s in result.published] == [("no", 1), ("yes", 1), ("unknown", None)]
    assert {s.machine for s in result.published} == {"h100"}
    assert all(
        s.ratio * s.tokens_per_s_per_user == pytest.approx(result.decode.tokens_per_s_per_user)
        for s in result.published
    )
    titles = [table.title for table in result.tables()]
    assert titles[titles.index("Results") + 1] == "Published speeds and the estimate"
