"""One question has one answer: estimates, comparisons and simulations of the same requests agree."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from tiers import slow_but

import wse

SMALL: Final[dict[str, Any]] = {"mesh": "32x32", "wafers": 1, "mapping": "pipeline", "schedule": "released"}
"""A wafer on which layouts are compiled fast."""
ON_WAFERS: Final = [
    {"prompt_len": prompt, "new_tokens": new, "users": users}
    for prompt, new, most in [(16, 48, 4), (64, 128, 2), (200, 100, 3), (300, 1, 4)]
    for users in range(1, most + 1)
]
ON_GPUS: Final = [
    {"model": model, "gpu": gpu, "gpus": gpus, "prompt_len": prompt, "new_tokens": new, "users": users}
    for (model, gpu, gpus), (prompt, new), users in product(
        [("llama-3-8b", "h100", 1), ("llama-3.1-70b", "h200", 8), ("gpt-oss-120b", "b200", 2)],
        [(1024, 1024), (4000, 300), (200, 400)],
        [1, 8, 32],
    )
]


def name_of(options: dict[str, Any]) -> str:
    return "-".join(map(str, options.values()))


def simulated(serving: Any, options: dict[str, Any]) -> Any:
    """Return what requests at constant distances get; their rate and cost are of the operating point within 3 %."""
    served = wse.serve_sim(**options, arrivals="constant", requests=1_000).served
    assert served is not None
    assert served.tokens_per_s == pytest.approx(serving.tokens_per_s, rel=0.03)
    assert served.usd_per_million_tokens is not None
    assert served.usd_per_million_tokens.value == pytest.approx(serving.usd_per_million_tokens, rel=0.03)
    return served.all


@pytest.mark.parametrize("options", slow_but(ON_GPUS, *ON_GPUS[1::3]), ids=name_of)
def test_simulations_on_gpus_are_what_estimates_say(options: dict[str, Any]) -> None:
    serving = wse.estimate(**options).serving
    assert serving is not None
    assert serving.users == options["users"]
    latencies = simulated(serving, options)
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.03)
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.035)


@pytest.mark.parametrize("options", slow_but(ON_WAFERS, *ON_WAFERS[1::3]), ids=name_of)
def test_simulations_on_wafers_are_what_estimates_say(options: dict[str, Any]) -> None:
    serving = wse.estimate("story", **SMALL, **options).serving
    assert serving is not None
    latencies = simulated(serving, {"model": "story", **SMALL, **options, "objective": "latency"})
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.07)
    if options["users"] == 1 and serving.tpot_s is not None:
        assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 6])
@pytest.mark.parametrize(("prompt_len", "new_tokens"), [(1024, 1024), (4000, 300), (200, 300)])
def test_simulations_of_a_large_model_on_a_wafer_are_what_estimates_say(
    prompt_len: int, new_tokens: int, users: int
) -> None:
    options = {"model": "llama-3-8b", "prompt_len": prompt_len, "new_tokens": new_tokens, "users": users}
    serving = wse.estimate(**options).serving
    assert serving is not None
    latencies = simulated(serving, {**options, "objective": "latency"})
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.03)
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.03)


@pytest.mark.parametrize(("prompt_len", "new_tokens"), [(16, 48), pytest.param(200, 100, marks=pytest.mark.slow)])
def test_rows_of_comparisons_are_points_of_estimates(prompt_len: int, new_tokens: int) -> None:
    lengths: dict[str, Any] = {"prompt_len": prompt_len, "new_tokens": new_tokens}
    rows = wse.compare("story", **SMALL | {"wafers": [1]}, **lengths, gpu=["h100"], gpus=1).rows
    of_wafers = wse.estimate("story", **SMALL, **lengths).serving
    of_gpus = wse.estimate("story", gpu="h100", gpus=1, **lengths).serving
    for kind, serving in (("wafer", of_wafers), ("gpu", of_gpus)):
        assert serving is not None
        points = {point.users: point for point in serving.points}
        own: dict[int, Any] = {
            row.users: row for row in rows if row.kind == kind and "for throughput" not in row.machine
        }  # type: ignore[union-attr]
        assert len(points.keys() & own.keys()) >= 2
        for users in points.keys() & own.keys():
            for key in ("ttft_s", "tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens"):
                assert getattr(own[users], key) == pytest.approx(getattr(points[users], key)), (kind, users, key)


@pytest.mark.slow
def test_a_plan_is_a_point_of_an_estimate() -> None:
    lengths: dict[str, Any] = {"prompt_len": 16, "new_tokens": 48, "users": 4}
    planned = wse.compare("story", **SMALL | {"wafers": [1]}, **lengths, replicas=1, objective="latency", top=1)
    serving = wse.estimate("story", **SMALL, **lengths).serving
    assert serving is not None
    row: Any = planned.rows[0]
    assert (row.users, row.replicas) == (4, 1)
    assert row.tokens_per_s == pytest.approx(serving.tokens_per_s, rel=0.03)
    assert row.usd_per_million_tokens == pytest.approx(serving.usd_per_million_tokens, rel=0.03)
