"""Tests of the intervals of a serving simulation: their ends, and agreement with the intervals of estimates."""

from __future__ import annotations

import pytest

import wse

PLACED = {"mesh": "24x24", "mapping": "region", "schedule": "baseline", "prompt_len": 64, "new_tokens": 64}
STORY = PLACED | {"requests": 200}


def test_headline_figures_have_intervals() -> None:
    result = wse.serve_sim("story", **STORY)
    assert set(result.ranges) == {
        *("served.tokens_per_s", "served.usd_per_million_tokens", "served.joules_per_token"),
        *(f"served.all.{figure}.{name}" for figure in ("ttft", "tpot") for name in ("mean", "p50", "p99")),
    }
    for path, interval in result.ranges.items():
        value = result.to_dict()
        for key in path.split("."):
            value = value[key]
        assert interval.value == (value["value"] if isinstance(value, dict) else value)
        assert interval.low < interval.value < interval.high
    assert "(90 %: " in result.verdict


@pytest.mark.slow
def test_throughput_at_a_given_rate_has_a_narrow_interval() -> None:
    result = wse.serve_sim("story", rate=100, **STORY | {"requests": 2_000})
    throughput = result.ranges["served.tokens_per_s"]
    assert throughput.low == pytest.approx(throughput.high, rel=0.01)
    cost, price = result.ranges["served.usd_per_million_tokens"], result.served.usd_per_million_tokens
    assert price.range[0] < cost.low < cost.high < price.range[1]


def test_intervals_of_one_user_agree_with_an_estimate() -> None:
    served = wse.serve_sim("story", arrivals="constant", users=1, requests=20, objective="latency", **PLACED)
    estimate = wse.estimate("story", **PLACED)
    for figure, path in (("tokens_per_s", "served.tokens_per_s"), ("tpot_s", "served.all.tpot.mean")):
        simulated, expected = served.ranges[path], estimate.ranges[f"serving.{figure}"]
        assert simulated.low / simulated.value == pytest.approx(expected.low / expected.value, rel=0.01)
        assert simulated.high / simulated.value == pytest.approx(expected.high / expected.value, rel=0.01)


def test_intervals_on_gpus_agree_with_an_estimate() -> None:
    options = {"gpu": "h100", "users": 4, "prompt_len": 100, "new_tokens": 20}
    served, estimate = wse.serve_sim("llama-3-8b", requests=50, **options), wse.estimate("llama-3-8b", **options)
    for figure, path in (
        ("ttft_s", "served.all.ttft.mean"),
        ("tokens_per_s", "served.tokens_per_s"),
        ("usd_per_million_tokens", "served.usd_per_million_tokens"),
    ):
        simulated, expected = served.ranges[path], estimate.ranges[f"serving.{figure}"]
        assert simulated.low / simulated.value == pytest.approx(expected.low / expected.value)
        assert simulated.high / simulated.value == pytest.approx(expected.high / expected.value)


def test_sample_at_a_given_rate_is_a_scaled_machine_with_another_load() -> None:
    """A machine r times as fast needs 1 / r of the time of the stated machine at 1 / r of the rate."""
    options = {"gpu": "h100", "prompt_len": 100, "new_tokens": 20, "requests": 500}
    same_load = wse.serve_sim("llama-3-8b", load=0.6, **options)
    rate = same_load.requests.rate_per_s
    same_rate = wse.serve_sim("llama-3-8b", rate=rate, **options)
    for figure in ("ttft", "tpot"):
        path = f"served.all.{figure}.mean"
        interval = same_load.ranges[path]
        for end in ("low", "high"):
            ratio = getattr(interval, end) / interval.value
            scaled = wse.serve_sim("llama-3-8b", rate=rate * ratio, **options).served.all
            assert getattr(same_rate.ranges[path], end) == pytest.approx(ratio * getattr(scaled, figure).mean, rel=0.02)


def test_interval_of_ttft_grows_with_the_time_that_samples_are_overloaded() -> None:
    options = {"gpu": "h100", "prompt_len": 100, "new_tokens": 20, "max_users": 8}
    rate = 0.9 * wse.serve_sim("llama-3-8b", requests=50, **options).load.capacity_requests_per_s
    short, long = (wse.serve_sim("llama-3-8b", rate=rate, requests=count, **options) for count in (500, 1_500))
    assert short.load.overloaded_share == long.load.overloaded_share > 0.05
    assert f"overloaded in {short.load.overloaded_share:.0%} of".replace("%", " %") in short.verdict
    few, many = (result.ranges["served.all.ttft.p50"] for result in (short, long))
    assert many.high / few.high > 2.5
