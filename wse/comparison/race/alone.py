"""Lanes of machines that nobody waits for: a user alone, or among as many users as fit."""

from __future__ import annotations

from wse.comparison.race.pace import Pace
from wse.comparison.race.result import LaneCost, LaneResult, lane_result
from wse.report.price import scale_note
from wse.report.shared_tables import with_settings_text
from wse.report.terminal import plural
from wse.request.estimate_request import EstimateRequest
from wse.serving.network import Network
from wse.studies.estimate.draft_result import DraftPlanResult
from wse.studies.estimate.economy import CostResult
from wse.studies.estimate.estimate import estimate
from wse.studies.estimate.gpu_result import GpuCostResult
from wse.studies.estimate.gpus import estimate_on_gpus


def wafer_lane(request: EstimateRequest, tokens: int) -> LaneResult:
    """Wafers with one user."""
    result = estimate(request)
    assert result.latency.tpot_s is not None  # an answer has tokens
    assert result.cost is not None
    step_s, step_tokens = _step(result.latency.tpot_s, result.drafts)
    draft_wafers = 0 if result.drafts is None else result.drafts.gain.draft_wafers
    pace = Pace(
        name=f"{plural(result.system.wafers + draft_wafers, 'wafer')} {result.wafer.name}, alone",
        first_token_s=result.latency.user.ttft_s,
        queue_s=0.0,
        step_s=step_s,
        tokens_per_step=step_tokens,
    )
    faster = step_tokens * result.latency.tpot_s / step_s
    text = f"{result.system.mapping}, {result.model.dtype}{_drafts_note(result.drafts)}"
    note = with_settings_text(text, result.inputs)
    cost = _cost(result.cost, result.wafer.name, faster / (1 + draft_wafers / result.system.wafers))
    return lane_result(pace, tokens, cost=cost, note=note)


def gpu_lane(request: EstimateRequest, network: Network, tokens: int) -> LaneResult:
    """GPUs with the users of a request, who come and go but never wait for a seat."""
    result = estimate_on_gpus(request)
    step_s, step_tokens = _step(result.latency.tpot_s, result.drafts)
    who = "alone" if (request.batch or 1) == 1 else f"among {plural(request.batch or 1, 'user')}"
    pace = Pace(
        name=f"{plural(result.system.gpus, 'GPU')} {result.gpu.name}, {who}",
        first_token_s=result.latency.ttft_s + network.seconds,
        queue_s=0.0,
        step_s=step_s,
        tokens_per_step=step_tokens,
    )
    faster = step_tokens * result.latency.tpot_s / step_s
    cost = None if result.cost is None else _cost(result.cost, result.gpu.name, faster)
    note = f"{result.system.stack}, {result.model.dtype}{_drafts_note(result.drafts)}"
    return lane_result(pace, tokens, cost=cost, note=note)


def _cost(cost: CostResult | GpuCostResult, machine: str, faster: float) -> LaneCost:
    """Return the cost of an estimate over a factor by which drafts make tokens come faster."""
    return LaneCost(
        low=cost.usd_per_million_tokens_low,
        value=cost.usd_per_million_tokens,
        high=cost.usd_per_million_tokens_high,
        price=f"{scale_note(cost.price_ends, machine)}; {cost.assumptions.partition(': ')[2]}",
    ).over(faster)


def _step(tpot_s: float, drafts: DraftPlanResult | None) -> tuple[float, float]:
    """Seconds between two steps, and tokens of a step: with the drafts that gain most, where any do."""
    if drafts is None or not drafts.draft_tokens:
        return tpot_s, 1.0
    tokens = drafts.lengths[drafts.draft_tokens - 1].tokens_per_pass
    return tokens * tpot_s / drafts.speed_up, tokens


def _drafts_note(drafts: DraftPlanResult | None) -> str:
    return "" if drafts is None else f", {plural(drafts.draft_tokens, 'token')} drafted"
