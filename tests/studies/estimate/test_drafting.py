"""The times of a draft head, which is compiled as one more layer of the model, and what drafts gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wse.backends.fabric.model import Fabric
from wse.errors import DoesNotFit
from wse.studies.estimate.drafts.draft_machine import head_token_parts
from wse.studies.estimate.drafts.placement import place_head
from wse.studies.estimate.drafts.verify_passes import OUTSIDE, layer_cycles
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options

REQUEST = make_request(
    EstimateRequest, model="story", mesh="12x12", mapping="region", prompt_len=8, new_tokens=8, software="tuned"
)


@pytest.mark.parametrize("wafers", [1, 5])
def test_a_head_takes_the_steps_of_its_layer_and_those_outside_of_layers(wafers: int) -> None:
    head = place_head(prepare_estimate(replace(REQUEST, wafers=wafers)))
    prepared, program = head.prepared, head.compilation.program
    assert prepared.spec.layer_count == 6
    cost = Fabric(program, prepared.wafer, prepared.software).decode_cost(*prepared.middle_context)
    by_layer = [layer_cycles(program, program.decode, cost, layer) for layer in (*range(6), OUTSIDE)]
    assert sum(by_layer) == pytest.approx(cost.cycles)
    clock_hz, (model_s, head_s) = prepared.wafer.clock_hz, head_token_parts(head)
    assert head_s == pytest.approx((by_layer[5] + by_layer[6]) / clock_hz)
    assert model_s == pytest.approx((cost.cycles - by_layer[5]) / clock_hz)


@pytest.mark.slow
def test_a_head_that_has_no_room_is_refused_with_what_would_hold_it() -> None:
    """10x10 PEs store the five layers of the story model with their caches of 1,024 tokens, and not six."""
    request = make_request(EstimateRequest, model="story", mesh="10x10", draft="0.9")
    assert estimate(replace_options(request, draft=None)).system.wafers == 1
    with pytest.raises(DoesNotFit) as caught:
        estimate(request)
    message = str(caught.value)
    assert message.startswith("--draft: no room for a draft head, one more layer of the model: story does not fit")
    assert "needs 49,844 of 49,152 bytes" in message
    assert "any of these would make it fit: --mesh 11x11, --wafers 2," in message
    held = estimate(replace_options(request, mesh="11x11")).drafts
    assert (held.draft, held.wafers) == ("head", 0)
