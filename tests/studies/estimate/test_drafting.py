"""What a drafted token costs beside one of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wse.request.estimate_request import EstimateRequest
from wse.studies.estimate.drafting import draft_cost
from wse.studies.estimate.estimate import estimate
from wse.studies.results.phases import DecodeResult


def test_a_draft_is_a_layer_without_crossings_and_what_is_outside_of_layers() -> None:
    rates = {"tokens_per_s": 1.0, "tokens_per_s_per_user": 1.0}
    decode = DecodeResult(cycles_per_token=100.0, cycles_per_layer=20.0, cycles_by={"crossing": 40.0}, **rates)
    assert draft_cost(decode, 4) == pytest.approx((20 - 10 + 20) / 100)


def test_crossings_of_many_wafers_make_a_draft_no_dearer() -> None:
    request = EstimateRequest(model="story", mesh="12x12", wafers=1, prompt_len=8, new_tokens=8, software="tuned")
    one = estimate(request).decode
    five = estimate(replace(request, wafers=5)).decode
    assert one is not None
    assert five is not None
    assert five.cycles_by["crossing"] > one.cycles_by["crossing"]
    assert 0 < draft_cost(five, 5) < draft_cost(one, 5) <= 1
