"""What a drafted token costs beside one of the model, and what drafts gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import prepare_estimate
from wse.serving.speculation import acceptance_of
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafting import best_drafting, draft_cost, head_machine
from wse.studies.estimate.estimate import estimate, estimate_of
from wse.studies.results.phases import DecodeResult

REQUEST = EstimateRequest(model="story", mesh="12x12", mapping="region", prompt_len=8, new_tokens=8, software="tuned")


def test_a_draft_is_a_layer_without_crossings_and_what_is_outside_of_layers() -> None:
    rates = {"tokens_per_s": 1.0, "tokens_per_s_per_user": 1.0}
    decode = DecodeResult(cycles_per_token=100.0, cycles_per_layer=20.0, cycles_by={"crossing": 40.0}, **rates)
    assert draft_cost(decode, 4) == pytest.approx((20 - 10 + 20) / 100)


def test_crossings_of_many_wafers_make_a_draft_no_dearer() -> None:
    one, five = (estimate(replace(REQUEST, wafers=wafers)).decode for wafers in (1, 5))
    assert one is not None
    assert five is not None
    assert five.cycles_by["crossing"] > one.cycles_by["crossing"]
    assert 0 < draft_cost(five, 5) < draft_cost(one, 5) <= 1


@pytest.mark.slow
def test_the_pass_that_checks_drafts_is_the_one_that_an_estimate_reports() -> None:
    """Compiled for the regions of the model, for as many tokens as are drafted and one more."""
    request = replace(REQUEST, wafers=2)
    prepared = prepare_estimate(request)
    chosen = compile_fastest(prepared)
    decode = estimate_of(prepared, chosen.program).decode
    assert decode is not None
    drafting = best_drafting(acceptance_of("DeepSeek-R1"), head_machine(prepared, chosen, decode))
    assert drafting.draft_tokens > 0
    asked = estimate(replace(request, verify_tokens=drafting.draft_tokens + 1)).verify
    assert asked is not None
    assert drafting.check_cost == pytest.approx(asked.ratio_to_decode, rel=0.02)  # heads may project less at once
    assert 1 < drafting.check_cost < drafting.draft_tokens + 1
    assert drafting.gain == pytest.approx(
        acceptance_of("DeepSeek-R1").at(drafting.draft_tokens)
        / (drafting.draft_tokens * drafting.draft_cost + drafting.check_cost)
    )
