"""Claims about inter-wafer links: how a model is split, what crosses them, and slow links."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wse.reports.number_text import plural
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.shared_computations import SharedComputations, default_wafer_link, with_type
from wse.studies.compare.request import WaferLink
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.ranges.constants import Costs, uncertain_constants
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate_of
from wse.studies.options.option import make_request

MODEL: Final = "llama-3-8b"
SERVED: Final = "llama-3.1-70b"
MIXTURE: Final = "deepseek-v3"
WAFERS: Final = 4
GIGA, MICRO = 1e9, 1e-6
RATES: Final = (8 * GIGA, 32 * GIGA, 150 * GIGA)
"""Link bandwidths in bytes/s: four and sixteen lanes of PCIe 4.0, and a wafer's twelve 100-gigabit
ports."""
HOPS_US: Final = (0.5, 5.0, 20.0)
LITTLE: Final = 0.05
"""Fraction of speed that may be lost on a link that still counts as fast enough."""
BATCHES: Final = (1, 8, 64, 512)
VALUE_BYTES: Final = 2


def sharding(shared_computations: SharedComputations) -> Finding:
    """Decide whether a model loses its speed when it is sharded over wafers (claim 4).

    One user's speed is computed with whole layers on consecutive wafers, and with every op split
    over all wafers. To find the cause of the loss, the second computation is repeated with a
    thousandth of the link latency, and with a thousand times the link bandwidth.
    """
    single_wafer_speeds = shared_computations.speeds(MODEL, wafers=1)
    tensor_split_speeds = shared_computations.speeds(MODEL, wafers=WAFERS, mapping="tensor")
    speed_ratios = {
        "layer_split": shared_computations.speeds(MODEL, wafers=WAFERS) / single_wafer_speeds,
        "tensor_split": tensor_split_speeds / single_wafer_speeds,
    }
    crossing = shared_computations.estimate(MODEL, wafers=WAFERS, mapping="tensor").crossing
    assert crossing is not None
    high_bandwidth = WaferLink(default_wafer_link().bytes_per_s * 1_000, default_wafer_link().latency_s)
    low_latency = WaferLink(default_wafer_link().bytes_per_s, default_wafer_link().latency_s / 1_000)
    bandwidth_gain, latency_gain = (
        float(shared_computations.speeds(MODEL, link, wafers=WAFERS, mapping="tensor")[0] / tensor_split_speeds[0])
        for link in (high_bandwidth, low_latency)
    )
    is_slow = np.array([ratio < 0.5 for ratio in speed_ratios.values()])
    builder = FindingBuilder("sharding", model=with_type(MODEL), wafers=WAFERS)
    for name, ratio in speed_ratios.items():
        builder.add(f"kept_{name}", ratio)
    builder.add("crossing_s_tensor_split", crossing.s_per_token)
    builder.add("gain_of_latency", latency_gain)
    builder.add("gain_of_bandwidth", bandwidth_gain)
    return builder.finding(by_rule(holds=is_slow.all(axis=0), never=~is_slow.any(axis=0)))


def residual_stream(shared_computations: SharedComputations) -> Finding:
    """Decide whether only one hidden vector per token crosses between wafers (claim 5).

    The values that cross each boundary between wafers are counted for a model whose hidden vector
    has 7,168 values.
    """
    shared_computations.on_work(MIXTURE)
    values, *values_at_ends = (_values_that_cross(result) for result in estimates_at_ends(MIXTURE))
    min_values, max_values = min(values), max(values)
    is_confirmed = np.array([max(counts) <= min(counts) for counts in (values, *values_at_ends)])
    builder = FindingBuilder("residual_stream", model=with_type(MIXTURE))
    builder.add("values_least", min_values)
    builder.add("values_most", max_values)
    builder.add("boundaries", len(values))
    builder.add("boundaries_whole", sum(value == min_values for value in values))
    builder.add("bytes_least", min_values * VALUE_BYTES)
    return builder.finding(
        by_rule(holds=is_confirmed, never=False),
        is_at_ends=True,
        transfer_us=min_values * VALUE_BYTES / default_wafer_link().bytes_per_s / MICRO,
    )


def estimates_at_ends(model: str) -> tuple[EstimateResult, EstimateResult, EstimateResult]:
    """Estimate a model with the stated constants and at both ends of their ranges.

    All three estimates use the layout that is best for the stated constants. They are used for
    claims that depend on counts, such as words between wafers, because the fast computation for
    random samples yields only times.

    Args:
        model: Name of a bundled model.

    Returns:
        Estimates with the stated constants, with all uncertain constants at the low ends of their
        ranges, and with all of them at the high ends.
    """
    prepared_estimate = prepare_estimate(make_request(EstimateRequest, model=model))
    layout = choose_layout(prepared_estimate, compile_fastest)
    stated_costs = Costs(wafer=layout.prepared.wafer, software=layout.prepared.software)
    low_costs = high_costs = stated_costs
    for constant in uncertain_constants(prepared_estimate.request.machine, prepared_estimate.wafer.generation):
        low_costs = low_costs.with_constant(constant.name, constant.number.low)
        high_costs = high_costs.with_constant(constant.name, constant.number.high)
    stated_estimate, low_estimate, high_estimate = (
        estimate_of(replace(layout.prepared, wafer=costs.wafer, software=costs.software), layout.compilation.program)
        for costs in (stated_costs, low_costs, high_costs)
    )
    return stated_estimate, low_estimate, high_estimate


def _values_that_cross(result: EstimateResult) -> list[float]:
    """Return the number of values per token that each wafer sends to the next wafer."""
    assert result.crossing is not None
    cuts = (cut for cut in result.crossing.cuts if cut.to_wafer == cut.from_wafer + 1)
    return [cut.bytes_per_token / VALUE_BYTES for cut in cuts]


def slow_link(shared_computations: SharedComputations) -> Finding:
    """Decide whether a slow link between wafers, four lanes of PCIe 4.0, would be enough (claim 6).

    One user's speed is computed for several link bandwidths and latencies. For larger batches, only
    the time of the transfers is computed.
    """
    lines, ratios, own = {}, {}, shared_computations.estimate(SERVED)
    assert own.crossing is not None
    wafers, own_speeds = own.system.wafers, shared_computations.speeds(SERVED)
    for hop in HOPS_US:
        points = []
        for bytes_per_s in RATES:
            ratio = shared_computations.speeds(SERVED, WaferLink(bytes_per_s, hop * MICRO), wafers=wafers) / own_speeds
            points.append((bytes_per_s / GIGA, float(ratio[0])))
            ratios[bytes_per_s, hop] = ratio
        lines[f"{hop:g} µs per link"] = tuple(points)
    builder = FindingBuilder("slow_link", model=with_type(SERVED), wafers=wafers)
    slow_link_ratios = {hop: ratios[RATES[0], hop] for hop in HOPS_US}
    for hop, ratio in slow_link_ratios.items():
        builder.add("speed_8gb_{hop:g}us", ratio, hop=hop)
    token_s = 1 / float(own_speeds[0])
    bytes_per_token = sum(cut.bytes_per_token for cut in own.crossing.cuts)
    transfer_ratios = {batch: batch * bytes_per_token / RATES[0] / token_s for batch in BATCHES}
    for batch, transfer_ratio in transfer_ratios.items():
        builder.add("bytes_share_{batch}", transfer_ratio, batch=batch, users=plural(batch, "user"))
    is_fast_enough = np.array([1 - ratio <= LITTLE for ratio in slow_link_ratios.values()])
    return builder.finding(
        by_rule(holds=is_fast_enough.all(axis=0), never=~is_fast_enough.any(axis=0)),
        lines,
        max_users=BATCHES[-1],
        max_transfer_ratio=transfer_ratios[BATCHES[-1]],
    )
