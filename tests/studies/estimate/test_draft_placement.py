"""Where drafts run: on free PEs, on wafers of their own, on the host; refusals, and the cost of further wafers."""

from __future__ import annotations

from typing import Any

import pytest

from wse.errors import DoesNotFit
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.placement import place_draft
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options

LARGE = make_request(EstimateRequest, model="llama-3.1-70b", wafers=4, draft="0.8,0.7,0.6", draft_model="llama-3.1-8b")
STORY = make_request(
    EstimateRequest,
    model="story",
    mesh="24x24",
    mapping="region",
    prompt_len=8,
    new_tokens=24,
    draft="0.9",
    draft_model="story-draft",
)


def answer(request: EstimateRequest, **changes: Any) -> tuple[EstimateResult, DraftPlanResult]:
    result = estimate(replace_options(request, **changes))
    assert result.drafts is not None
    return result, result.drafts


@pytest.mark.slow
def test_a_draft_model_without_room_beside_the_model_is_refused_and_the_remedy_works() -> None:
    """70B leaves strips of 25 columns free on four wafers, 8B needs 16 GB."""
    with pytest.raises(DoesNotFit, match="give --draft-place wafer, which takes 1 more wafer"):
        estimate(LARGE)
    result, drafts = answer(LARGE, draft_place="wafer")
    assert (result.system.wafers, drafts.wafers, drafts.region) == (4, 1, None)
    assert drafts.draft_tokens > 0
    serving = result.serving
    request_s = 1 / serving.requests_per_s
    answer_s = (serving.new_tokens - 1) * serving.tpot_s
    shorter_s = request_s - answer_s * (1 - 1 / drafts.speed_up)  # the prompt takes as long as without drafts
    ratio = 5 / 4 * shorter_s / request_s  # five wafers instead of four, for more tokens
    assert drafts.usd_per_million_tokens == pytest.approx(result.cost.usd_per_million_tokens * ratio)
    assert drafts.joules_per_token == pytest.approx(result.energy.joules_per_token * ratio)


@pytest.mark.slow
def test_a_small_draft_is_placed_on_pes_that_the_model_leaves_free() -> None:
    """TinyLlama has 2.2 GB; 7B leaves a strip of its wafer free."""
    request = make_request(EstimateRequest, model="llama-2-7b", draft="0.8", draft_model="tinyllama-1.1b")
    _, drafts = answer(request)
    assert drafts.region is not None
    assert (drafts.place, drafts.wafers) == ("same", 0)
    prepared = prepare_estimate(request)
    chosen = compile_fastest(prepared)
    placed = place_draft(prepared, chosen)
    rect, region = placed.region.rect, drafts.region
    assert (region.row, region.col, region.rows, region.cols) == rect
    assert placed.prepared.fabric_shape == (rect.rows, rect.cols)
    assert placed.compilation.program.fits
    for stage in chosen.program.stages:
        used = stage.rect
        row, col, rows, cols = (used.col, used.row, used.cols, used.rows) if chosen.program.is_transposed else used
        assert (
            row + rows <= rect.row
            or rect.row + rect.rows <= row
            or rect.col >= col + cols
            or col >= rect.col + rect.cols
        )


@pytest.mark.slow
def test_acceptance_is_reported_by_position_with_the_draft_that_it_was_measured_with() -> None:
    _, drafts = answer(STORY, draft="deepseek-r1")
    assert drafts.acceptance_by_position == pytest.approx((0.92, 0.66 / 0.92, 0.24 / 0.66, 0.17 / 0.24, 0.02 / 0.17))
    assert (drafts.acceptance_kind, drafts.acceptance_grade) == ("head", "I")
    assert drafts.acceptance_measured_with == "a draft head (MTP) of DeepSeek-R1"
    assert dict(draft_table(drafts).footer)["source"] == drafts.source
    _, given = answer(STORY, draft="0.8,0.5")
    assert given.acceptance_by_position == (0.8, 0.5)
    assert (given.acceptance_kind, given.acceptance_grade, given.acceptance_note) == ("any", "U", None)
