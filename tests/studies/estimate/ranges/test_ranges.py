"""Tests of the intervals of headline figures: quantiles, samples, model errors and the table of contributions."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import wse
from wse.cli import main
from wse.hardware.number import SourcedNumber
from wse.reports.intervals import CONFIDENCE, RangeResult, interval_text, range_of
from wse.reports.number_text import seconds, three_figures
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape, operating_point
from wse.studies.estimate.ranges.constants import SAMPLES, UncertainConstant, probabilities_of, values_at
from wse.studies.estimate.ranges.model_error import FILE, ErrorKind, ModelError, error_distribution, model_error
from wse.studies.estimate.ranges.sampled_figures import Uncertainty, intervals_of, sampled_figures
from wse.studies.estimate.ranges.study import contributions_of
from wse.studies.estimate.ranges.surface import ResponseSurface
from wse.studies.results.operating_points import OperatingPointResult, point_result

NO_ERROR = ModelError(sizes=np.zeros(2), probabilities=np.array([0.0, 1.0]))
"""Model error of a model that is exact."""
DEPLOYMENT = WaferDeployment(
    shape=RequestShape(prompt_tokens=100, new_tokens=100),
    max_concurrency=8,
    chips=2,
    economics=None,
    token_s=1e-3,
    stage_s=2e-4,
    prompt_s=1e-2,
    chunk_s=1e-3,
    delay_s=1e-3,
)
STORY = {"mesh": "24x24", "schedule": "baseline", "prompt_len": 64, "new_tokens": 64}


def number(value: float, low: float, high: float) -> SourcedNumber:
    """Return a constant with a value and the range from low to high."""
    return SourcedNumber(value=value, unit="cycle", grade="I", source="test", range=(low, high))


def uncertainty(width: float = 0.0, *, error: bool = False) -> Uncertainty:
    """Return the uncertainty of a single constant of 100 cycles.

    The range of the constant is 100 * (1 ± width), and all times are proportional to it.

    Args:
        width: Half the width of the range, as a fraction of the value.
        error: Whether the model has an error in addition.
    """
    constant = UncertainConstant(name="software.loop_cycles", number=number(100, 100 * (1 - width), 100 * (1 + width)))
    base = np.array([1e-3, 2e-4, 1e-2, 1e-3])
    surface = ResponseSurface(
        constants=(constant,),
        base=base,
        fixed=np.zeros(4),
        low_effects=-width * base[None, :],
        high_effects=width * base[None, :],
    )
    return Uncertainty(
        surface=surface,
        decode_error=model_error("decode", "production") if error else NO_ERROR,
        prefill_error=model_error("prefill", "production") if error else NO_ERROR,
    )


def point(deployment: WaferDeployment = DEPLOYMENT) -> OperatingPointResult:
    """Return the operating point of one user."""
    return point_result(operating_point(deployment, 1))


def ranges_of(uncertainty: Uncertainty, deployment: WaferDeployment = DEPLOYMENT) -> dict[str, RangeResult]:
    """Return the intervals of the figures of one user."""
    return intervals_of(point(deployment), sampled_figures(uncertainty, deployment, 1, 1))


def test_without_ranges_and_model_error_there_is_no_interval() -> None:
    ranges = ranges_of(uncertainty())
    assert set(ranges) == {"ttft_s", "tpot_s", "tokens_per_s_per_user", "tokens_per_s"}
    for interval in ranges.values():
        assert interval.low == pytest.approx(interval.value)
        assert interval.high == pytest.approx(interval.value)
        assert interval.samples == SAMPLES
    exact = RangeResult(value=1.0, low=1.0, high=1.0, samples=SAMPLES)
    assert (interval_text(exact, seconds), interval_text(None, seconds)) == ("", "")


def test_interval_of_a_uniform_range_has_its_quantiles() -> None:
    interval = ranges_of(uncertainty(0.2))["tpot_s"]
    assert interval.low / interval.value == pytest.approx(1 - 0.2 * 0.9, abs=0.002)
    assert interval.high / interval.value == pytest.approx(1 + 0.2 * 0.9, abs=0.002)


def test_interval_contains_the_value() -> None:
    sampled = sampled_figures(uncertainty(0.2, error=True), DEPLOYMENT, 1, 1)["tpot_s"]
    value = float(np.median(sampled))
    interval = range_of(value, sampled)
    assert interval.low < value < interval.high
    assert np.mean((interval.low <= sampled) & (sampled <= interval.high)) == pytest.approx(CONFIDENCE, abs=0.005)
    outside = range_of(10 * value, sampled)
    assert outside.low < outside.value == outside.high


def test_samples_depend_only_on_the_name() -> None:
    first, repeated = (probabilities_of("wafer.clock_hz", 200) for _ in range(2))
    assert np.array_equal(first, repeated)
    assert not np.array_equal(first, probabilities_of("wafer.ramp_cycles", 200))
    # each of 200 equal intervals has one sample
    assert np.array_equal(np.sort((first * 200).astype(int)), np.arange(200))
    figures = [sampled_figures(uncertainty(0.2, error=True), DEPLOYMENT, 1, 1)["tpot_s"] for _ in range(2)]
    assert np.array_equal(*figures)


def test_value_of_a_constant_is_the_median_of_its_samples() -> None:
    values = values_at(number(93, 48, 142), probabilities_of("x", 1001))
    assert np.median(values) == pytest.approx(93, abs=0.1)
    assert (values.min() >= 48, values.max() <= 142) == (True, True)


def test_price_and_power_are_sampled() -> None:
    economics = Economics(
        kind="wafer",
        sources={"wafer_power_w": number(20_000, 15_000, 25_000), "wafer_usd_per_hour": number(60, 40, 100)},
    )
    deployment = replace(DEPLOYMENT, economics=economics)
    ranges = ranges_of(uncertainty(), deployment)
    cost, energy = ranges["usd_per_million_tokens"], ranges["joules_per_token"]
    assert cost.low / cost.value == pytest.approx((60 - 20 * 0.9) / 60, rel=0.01)
    assert cost.high / cost.value == pytest.approx((60 + 40 * 0.9) / 60, rel=0.01)
    assert energy.high / energy.value == pytest.approx(1 + 0.25 * 0.9, rel=0.01)


def test_model_errors_are_symmetric_and_can_exclude_a_source() -> None:
    probabilities = np.linspace(0.01, 0.99, 99)
    for kind in get_args(ErrorKind):
        errors = model_error(kind, "production").at(probabilities)
        assert errors == pytest.approx(-errors[::-1])
        assert (np.diff(errors) >= 0).all()
    tails = np.array([0.95])
    source = "https://danielkim.sh/blog/how-is-cerebras-so-fast"  # the largest error
    all_sources, other_sources = (model_error("decode", "production", without_source=name) for name in ("", source))
    assert other_sources.at(tails) < all_sources.at(tails)
    pooled, without = (model_error("prefill", "production", without_publisher=name) for name in ("", "OSDI25"))
    assert pooled.at(tails) < without.at(tails)


def test_model_error_uses_the_same_software_if_it_has_enough_sources() -> None:
    tails = np.array([0.95])
    epcc, production = (model_error("decode", name).at(tails) for name in ("epcc", "production"))
    assert epcc < model_error("decode", "tuned").at(tails) < production
    pooled = model_error("prefill", "tuned").at(tails)
    assert model_error("prefill", "academic").at(tails) == pooled  # all seven errors of academic are of one publication
    assert model_error("decode", "my/production.toml").at(tails) == model_error("decode", "tuned").at(tails)


@pytest.mark.parametrize(
    ("errors", "groups", "scale", "quantile"),
    [
        ([0.1, -0.2, 0.2], "abc", 0.1732, 2.3534),  # three groups with one error each: 3 degrees of freedom
        ([0.1, 0.1, -0.2, 0.2], "aabc", 0.1732, 2.3534),  # equal errors of a group count once
        ([0.1, 0.1, -0.2, -0.2, 0.2, 0.2], "aabbcc", 0.1732, 2.3534),
        ([0.1, -0.1, 0.2, -0.2, 0.2, -0.2], "aabbcc", 0.1732, 1.9432),  # independent errors: 6 degrees of freedom
    ],
)
def test_errors_have_students_t_distribution(errors: list[float], groups: str, scale: float, quantile: float) -> None:
    """The quantiles are the 95th percentiles in printed tables of Student's t distribution."""
    error = error_distribution(np.exp(errors).tolist(), list(groups))
    assert error.at(np.array([0.5, 0.95])) == pytest.approx([0, scale * quantile], rel=1e-3)
    assert np.log(error.interval(0.9)) == pytest.approx([-scale * quantile, scale * quantile], rel=1e-3)
    probabilities = np.array([0.2, 0.5, 0.6, 0.8])
    assert error.probability(error.at(probabilities)) == pytest.approx(probabilities)


@pytest.mark.parametrize(
    ("kind", "measured", "inside_50", "inside_90"),
    [("decode", 77, 31, 74), ("prefill", 17, 12, 15), ("gpu_dense", 196, 100, 171), ("gpu_experts", 95, 50, 91)],
)
def test_intervals_contain_most_measurements_of_other_publications(
    kind: ErrorKind, measured: int, inside_50: int, inside_90: int
) -> None:
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == kind]
    inside = [
        [low <= float(row["time_ratio"]) <= high for low, high in map(error.interval, (0.5, 0.9))]
        for row in rows
        for without in [{"without_source": row["source"], "without_publisher": row["publisher"]}]
        for error in [model_error(kind, row["software"], **without)]
    ]
    assert (len(rows), *np.sum(inside, axis=0)) == (measured, inside_50, inside_90)
    assert 0.85 < inside_90 / measured < 0.97


def test_contributions_sum_to_one_and_rank_the_largest_first() -> None:
    result = contributions_of(uncertainty(0.2, error=True), DEPLOYMENT, point())
    assert result.contributions[0].name == "model error of decode"
    assert sum(row.tpot_variance_share for row in result.contributions) == pytest.approx(1)
    assert sum(row.ttft_variance_share for row in result.contributions) == pytest.approx(1)
    row = next(row for row in result.contributions if row.name == "software.loop_cycles")
    assert (row.low, row.value, row.high) == pytest.approx((80, 100, 120))
    assert row.tpot_s_at_low < result.tpot_s < row.tpot_s_at_high
    assert len(result.plot().axes) == 1


@pytest.mark.parametrize(
    ("low", "high", "text", "expected"),
    [
        (5.6e-4, 7.9e-4, seconds, "(90 %: 560 to 790 µs)"),
        (9.5e-4, 1.1e-3, seconds, "(90 %: 950 µs to 1.1 ms)"),
        (0.28, 0.85, three_figures, "(90 %: 0.28 to 0.85)"),
    ],
)
def test_interval_text_prints_a_shared_unit_once(low: float, high: float, text, expected: str) -> None:
    assert interval_text(RangeResult(value=low, low=low, high=high, samples=1), text) == expected


def test_estimate_has_a_range_for_each_headline_figure() -> None:
    result = wse.estimate("story", **STORY)
    assert set(result.ranges) == {
        f"serving.{name}"
        for name in (
            *("ttft_s", "tpot_s", "tokens_per_s_per_user", "tokens_per_s"),
            *("usd_per_million_tokens", "joules_per_token"),
        )
    }
    for path, interval in result.ranges.items():
        assert interval.value == getattr(result.serving, path.partition(".")[2])
        assert interval.low < interval.value < interval.high
    assert result.uncertainty is None
    assert wse.estimate("story", **STORY).ranges == result.ranges
    assert set(result.to_dict()["ranges"]["serving.tpot_s"]) == {"value", "low", "high", "samples"}


def test_uncertainty_option_lists_the_constants() -> None:
    result = wse.estimate("story", **STORY, uncertainty=True)
    clock = next(row for row in result.uncertainty.contributions if row.name == "wafer.clock_hz")
    assert clock.tpot_s_at_high < result.uncertainty.tpot_s < clock.tpot_s_at_low
    assert clock.reason.startswith("disagreeing sources")
    titles = [table.title for table in result.tables()]
    assert "Uncertainty" in titles


def test_command_draws_the_contributions_of_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chart, options = tmp_path / "tornado.png", ["--mesh", "24x24", "--prompt-len", "8", "--new-tokens", "8"]
    options += ["--mapping", "region", "--schedule", "baseline"]
    assert main(["estimate", "story", *options, "--uncertainty", "--png", str(chart)]) == 0
    assert chart.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "Uncertainty" in out
    assert "(90 %: " in out
    assert main(["estimate", "story", *options, "--png", str(chart)]) == 2
    assert "--png" in capsys.readouterr().err
