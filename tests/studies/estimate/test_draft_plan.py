"""Tests of the draft plan of an estimate: acceptance, times by draft length, draft heads, placement of drafts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wse.backends.fabric.model import Fabric
from wse.errors import BadInput, DoesNotFit
from wse.hardware.load import load_wafer
from wse.serving.drafts.speculation import acceptance_of
from wse.studies.compile.choose import compile_fastest, pass_fabric
from wse.studies.compile.draft_times import host_memory_rate
from wse.studies.estimate.drafts import placement
from wse.studies.estimate.drafts.draft_machine import decode_s, head_token_parts
from wse.studies.estimate.drafts.placement import place_draft, place_head
from wse.studies.estimate.drafts.plan import acceptance_result
from wse.studies.estimate.drafts.result import DraftPlanResult, acceptance_rows, draft_table
from wse.studies.estimate.drafts.verify_passes import OUTSIDE, layer_cycles, verify_passes
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.drafts.acceptance import CONSTANT_POSITIONS, read_acceptance
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.sram import users_at

REQUEST = make_request(
    EstimateRequest,
    model="story",
    wafer="wse2",
    mesh="24x24",
    mapping="region",
    prompt_len=8,
    new_tokens=24,
    software="tuned",
    schedule="baseline",
    draft="0.9",
)


def plan_of(**options: Any) -> DraftPlanResult:
    """Return the draft plan of REQUEST with these options."""
    plan = estimate(replace_options(REQUEST, **options)).drafts
    assert plan is not None
    return plan


def test_each_draft_length_is_timed_by_its_own_pass() -> None:
    prepared = prepare_estimate(REQUEST)
    chosen, head = compile_fastest(prepared), place_head(prepared)
    assert head.compilation is not None
    passes, plain_s = verify_passes(prepared, chosen, head), decode_s(prepared, chosen)
    result = estimate(REQUEST)
    plan = result.drafts
    assert plan.lengths
    for row in plan.lengths:
        assert row.verify_s == pytest.approx(passes.in_the_middle(row.draft_tokens + 1).model_s)
        assert row.draft_s == pytest.approx(row.draft_tokens * head_token_parts(head)[1])
        assert row.tokens_per_pass == pytest.approx(sum(0.9**n for n in range(row.draft_tokens + 1)))
        assert row.speed_up == pytest.approx(row.tokens_per_pass * plain_s / (row.verify_s + row.draft_s), rel=2e-3)
    assert plan.speed_up == max(1.0, *(row.speed_up for row in plan.lengths))
    assert plan.tokens_per_s_per_user == pytest.approx(plan.speed_up * result.decode.tokens_per_s_per_user)
    if plan.tree is not None:
        assert plan.tree.speed_up >= plan.speed_up - 1e-9
        assert len(plan.tree.parents) == plan.tree.nodes
    assert dict(draft_table(plan).footer)["source"] == plan.source


def test_verification_pass_serves_one_user() -> None:
    """Without drafts the users of a batch share a pass; with drafts each has its own, so a larger batch gains less."""
    one, four = plan_of(), plan_of(batch=4)
    assert four.speed_up <= one.speed_up
    head = place_head(prepare_estimate(replace_options(REQUEST, batch=4)))
    assert head.compilation is not None
    fabric = pass_fabric(head.prepared, head.compilation, 2)
    cost = fabric.verify_cost(head.prepared.middle_context[0])
    layers = cost.cycles - layer_cycles(fabric.program, fabric.program.verify[0], cost, 5)
    assert four.lengths[0].verify_s == pytest.approx(layers / head.prepared.wafer.clock_hz)


def test_times_of_a_draft_model_depend_on_its_place() -> None:
    """On the host, a draft token reads all weights once, and each pass adds a round trip between wafer and host."""
    same, other, host = (plan_of(draft_model="story-draft", draft_place=place) for place in ("same", "wafer", "host"))
    wafer = load_wafer("wse2")
    assert same.lengths[0].draft_s == other.lengths[0].draft_s
    exchange_s = other.lengths[0].verify_s - same.lengths[0].verify_s
    assert exchange_s == pytest.approx(2 * wafer.wafer_link_latency_s, rel=0.01)
    assert host.lengths[0].draft_s == pytest.approx(254_336 / host_memory_rate().value, rel=0.01)
    assert host.lengths[0].verify_s > wafer.host_round_trip_s
    assert host.draft_tokens == 0 or host.speed_up > 1
    assert (host.wafers, host.region, other.wafers) == (0, None, 1)
    head = plan_of()
    assert (same.draft, head.draft) == ("story-draft", "head")


def test_acceptance_is_read_from_a_name_numbers_or_a_file(tmp_path: Path) -> None:
    assert read_acceptance("glm-5.2").curve is acceptance_of("GLM-5.2")
    assert read_acceptance("Typical").curve.model == "typical"
    constant = read_acceptance("0.5")
    assert constant.curve.tokens_per_pass[-1] == pytest.approx(sum(0.5**n for n in range(CONSTANT_POSITIONS + 1)))
    assert read_acceptance("0.8,0.5").curve.tokens_per_pass == pytest.approx((1.8, 2.2))
    path = tmp_path / "own.toml"
    path.write_text("acceptance = [[0.6, 0.2], 0.5]\n")
    own = read_acceptance(str(path))
    assert own.choice_acceptances[0] == (0.6, 0.2)
    assert own.choice_acceptances[1][0] == 0.5
    assert own.curve.tokens_per_pass == pytest.approx((1.6, 1.9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accepted = [0.5]", "unknown key 'accepted': did you mean 'acceptance'?"),
        ("acceptance = []", "has no list of acceptances by position"),
        ("acceptance = [[0.8, 0.4]]", "acceptances of the choices at position 1: 1.2 together"),
    ],
)
def test_invalid_acceptance_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_acceptance(str(path))
    assert str(caught.value).startswith(f"--draft {path}: {message}")


DRAFTING_REQUEST = make_request(
    EstimateRequest, model="story", mesh="12x12", mapping="region", prompt_len=8, new_tokens=8, software="tuned"
)


@pytest.mark.parametrize("wafers", [1, 5])
def test_draft_head_time_is_that_of_its_layer_and_of_steps_outside_layers(wafers: int) -> None:
    head = place_head(prepare_estimate(replace(DRAFTING_REQUEST, wafers=wafers)))
    prepared, program = head.prepared, head.compilation.program
    assert prepared.spec.layer_count == 6
    cost = Fabric(program, prepared.wafer, prepared.software).decode_cost(*prepared.middle_context)
    by_layer = [layer_cycles(program, program.decode, cost, layer) for layer in (*range(6), OUTSIDE)]
    assert sum(by_layer) == pytest.approx(cost.cycles)
    clock_hz, (model_s, head_s) = prepared.wafer.clock_hz, head_token_parts(head)
    assert head_s == pytest.approx((by_layer[5] + by_layer[6]) / clock_hz)
    assert model_s == pytest.approx((cost.cycles - by_layer[5]) / clock_hz)


def on_small_wafers(rows: int, **changes: Any) -> EstimateRequest:
    """Return REQUEST with a draft model, on whole wafers of 24 columns."""
    shape = (("mesh_rows", rows), ("mesh_cols", 24))
    return replace_options(REQUEST, draft_model="story-draft", wafer_values=shape, **changes)


@pytest.mark.parametrize(
    ("options", "users_may_wait"),
    [
        ({"draft": None}, True),
        ({"draft": "0.8"}, True),
        ({"draft": "0.8", "draft_model": "story-draft"}, False),
        ({"draft": "0.8", "replicas": None}, False),
    ],
)
def test_users_of_the_model_may_wait_if_drafts_have_a_layout_of_their_own(
    options: dict[str, Any], *, users_may_wait: bool
) -> None:
    goal = prepare_estimate(replace_options(REQUEST, users=4, **options)).goal
    assert goal.users_may_wait == users_may_wait


def test_draft_model_without_room_is_refused_with_a_remedy_that_works() -> None:
    """The model leaves no PEs free on its two wafers."""
    request = on_small_wafers(24, mesh=None, wafers=2)
    with pytest.raises(DoesNotFit, match="give --draft-place wafer, which takes 1 more wafer"):
        estimate(request)
    result = estimate(replace_options(request, draft_place="wafer"))
    drafts, serving = result.drafts, result.serving
    assert (result.system.wafers, drafts.wafers, drafts.region) == (2, 1, None)
    assert drafts.draft_tokens > 0
    request_s = 1 / serving.requests_per_s
    answer_s = (serving.new_tokens - 1) * serving.tpot_s
    shorter_s = request_s - answer_s * (1 - 1 / drafts.speed_up)  # drafts do not change the time of the prompt
    ratio = 3 / 2 * shorter_s / request_s  # three wafers instead of two, in a shorter time
    assert drafts.usd_per_million_tokens == pytest.approx(result.cost.usd_per_million_tokens * ratio)
    assert drafts.joules_per_token == pytest.approx(result.energy.joules_per_token * ratio)


def test_small_draft_model_is_placed_on_free_pes() -> None:
    """The model uses a mesh of 24 rows on a wafer of 26 rows."""
    request = on_small_wafers(26)
    drafts = estimate(request).drafts
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
def test_draft_model_has_room_for_the_users_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest layout of this draft model on the free PEs has less room than the layout of its model."""
    options = {"users": 1, "objective": "throughput", "schedule": "optimized", "new_tokens": 200}
    layout = choose_layout(prepare_estimate(on_small_wafers(26, **options)))
    draft = place_draft(layout.prepared, layout.compilation)
    monkeypatch.setattr(placement, "_roomy_layout", lambda draft, compilation, layout: layout)
    fastest = place_draft(layout.prepared, layout.compilation)
    model_users, draft_users, fastest_users = (
        users_at(found.compilation.program, 208) for found in (layout, draft, fastest)
    )
    assert draft_users >= model_users > fastest_users


@pytest.mark.parametrize(("draft", "lengths"), [("typical", "1, 2, 3, 4, 5 and 8"), ("0.8,0.7", None)])
def test_lengths_between_which_the_acceptance_is_interpolated_are_stated(draft: str, lengths: str | None) -> None:
    (_, text), *_ = acceptance_rows(acceptance_result(read_acceptance(draft), "head", "any"))
    assert ("interpolated" in text) == (lengths is not None)
    assert lengths is None or f"measured with {lengths} tokens in a row" in text
