"""Tests of the intervals of GPU estimates: they follow from the model error, and from the price if none is given."""

from __future__ import annotations

import numpy as np
import pytest

import wse
from wse.studies.estimate.ranges.model_error import model_error


def test_intervals_of_times_are_those_of_the_model_error() -> None:
    result = wse.estimate("llama-3-8b", gpu="h100", users=4, prompt_len=100, new_tokens=20)
    low, high = np.exp(model_error("gpu_dense", "vllm").at(np.array([0.05, 0.95])))
    for name in ("ttft_s", "tpot_s"):
        interval = result.ranges[f"serving.{name}"]
        assert interval.value == getattr(result.serving, name)
        assert (interval.low / interval.value, interval.high / interval.value) == pytest.approx((low, high), rel=0.02)
    throughput = result.ranges["serving.tokens_per_s"]
    assert (throughput.low / throughput.value, throughput.high / throughput.value) == pytest.approx(
        (1 / high, 1 / low), rel=0.02
    )


def test_cost_at_a_given_price_has_the_interval_of_throughput() -> None:
    result = wse.estimate("llama-3-8b", gpu="h100", price="h100=3", prompt_len=100, new_tokens=20)
    cost, tokens_per_s = (result.ranges[f"serving.{name}"] for name in ("usd_per_million_tokens", "tokens_per_s"))
    assert cost.high / cost.value == pytest.approx(tokens_per_s.value / tokens_per_s.low, rel=1e-3)


def test_one_token_has_no_interval_of_tpot() -> None:
    ranges = wse.estimate("llama-3-8b", gpu="h100", prompt_len=100, new_tokens=1).ranges
    assert "serving.ttft_s" in ranges
    assert "serving.tpot_s" not in ranges
