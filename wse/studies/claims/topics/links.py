"""Claims about inter-wafer links: how a model is split, what crosses them, and slow links."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wse.reports.terminal import plural
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.laboratory import Laboratory, own_link, with_type
from wse.studies.claims.result import Curves, Finding, figure
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


def sharding(lab: Laboratory) -> Finding:
    """Decide whether a model loses its speed when it is sharded over wafers (claim 4).

    One user's speed is computed with whole layers on consecutive wafers, and with every op split
    over all wafers. To find the cause of the loss, the second computation is repeated with a
    thousandth of the link latency, and with a thousand times the link bandwidth.
    """
    single_wafer_speeds = lab.speeds(MODEL, wafers=1)
    tensor_split_speeds = lab.speeds(MODEL, wafers=WAFERS, mapping="tensor")
    speed_ratios = {
        "layer_split": lab.speeds(MODEL, wafers=WAFERS) / single_wafer_speeds,
        "tensor_split": tensor_split_speeds / single_wafer_speeds,
    }
    crossing = lab.estimate(MODEL, wafers=WAFERS, mapping="tensor").crossing
    assert crossing is not None
    high_bandwidth = WaferLink(own_link().bytes_per_s * 1_000, own_link().latency_s)
    low_latency = WaferLink(own_link().bytes_per_s, own_link().latency_s / 1_000)
    bandwidth_gain, latency_gain = (
        float(lab.speeds(MODEL, link, wafers=WAFERS, mapping="tensor")[0] / tensor_split_speeds[0])
        for link in (high_bandwidth, low_latency)
    )
    is_slow = np.array([ratio < 0.5 for ratio in speed_ratios.values()])
    return Finding(
        verdicts=by_rule(holds=is_slow.all(axis=0), never=~is_slow.any(axis=0)),
        answer=f"On {WAFERS} wafers, a user of {with_type(MODEL)} keeps {100 * speed_ratios['layer_split'][0]:.0f} % "
        "of the single-wafer speed with layers on consecutive wafers, and "
        f"{100 * speed_ratios['tensor_split'][0]:.0f} % "
        "with every op split over all wafers. In the latter case, a thousandth of the link latency would increase "
        f"the speed by a factor of {latency_gain:.2f}, and a thousand times the bandwidth by a factor of "
        f"{bandwidth_gain:.2f}.",
        numbers={
            "kept_layer_split": figure(
                speed_ratios["layer_split"], "", f"fraction of the single-wafer speed, with layers on {WAFERS} wafers"
            ),
            "kept_tensor_split": figure(
                speed_ratios["tensor_split"],
                "",
                f"fraction of the single-wafer speed, with every op split over {WAFERS} wafers",
            ),
            "crossing_s_tensor_split": figure(
                crossing.s_per_token, "s", "time per token for transfers between wafers, with every op split"
            ),
            "gain_of_latency": figure(
                latency_gain, "", "speedup of the tensor split from a thousandth of the link latency"
            ),
            "gain_of_bandwidth": figure(
                bandwidth_gain, "", "speedup of the tensor split from a thousand times the bandwidth"
            ),
        },
        reason="if wafers hold whole layers, a token crosses once per wafer, whatever the link; the tensor split is "
        "wse's own",
    )


def residual_stream(lab: Laboratory) -> Finding:
    """Decide whether only one hidden vector per token crosses between wafers (claim 5).

    The values that cross each boundary between wafers are counted for a model whose hidden vector
    has 7,168 values.
    """
    lab.on_work(MIXTURE)
    values, *values_at_ends = (_values_that_cross(result) for result in estimates_at_ends(MIXTURE))
    min_values, max_values = min(values), max(values)
    is_confirmed = np.array([max(counts) <= min(counts) for counts in (values, *values_at_ends)])
    plain_boundaries = sum(value == min_values for value in values)
    transfer_us = min_values * VALUE_BYTES / own_link().bytes_per_s / MICRO
    return Finding(
        verdicts=by_rule(holds=is_confirmed, never=False),
        is_at_ends=True,
        answer=f"For each token of {with_type(MIXTURE)}, {min_values:,.0f} values cross {plain_boundaries} of the "
        f"{len(values)} boundaries between wafers, which occupies a link for {transfer_us:.2f} µs. Where a layer is "
        "cut inside a feed-forward block, the block's partial sum and its router's selection cross as well: at most "
        f"{max_values:,.0f} values.",
        numbers={
            "values_least": figure(min_values, "values", "per token across a boundary between whole layers"),
            "values_most": figure(max_values, "values", "per token across a boundary inside a feed-forward block"),
            "boundaries": figure(len(values), "boundaries", f"between the wafers that store {with_type(MIXTURE)}"),
            "boundaries_whole": figure(
                plain_boundaries, "boundaries", "between layers, or between attention and feed-forward block"
            ),
            "bytes_least": figure(min_values * VALUE_BYTES, "bytes", "per token across such a boundary"),
        },
        reason="words that cross between wafers in the compiled Program",
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


def slow_link(lab: Laboratory) -> Finding:
    """Decide whether a slow link between wafers, four lanes of PCIe 4.0, would be enough (claim 6).

    One user's speed is computed for several link bandwidths and latencies. For larger batches, only
    the time of the transfers is computed.
    """
    lines, ratios, own = {}, {}, lab.estimate(SERVED)
    assert own.crossing is not None
    wafers, own_speeds = own.system.wafers, lab.speeds(SERVED)
    for hop in HOPS_US:
        points = []
        for bytes_per_s in RATES:
            ratio = lab.speeds(SERVED, WaferLink(bytes_per_s, hop * MICRO), wafers=wafers) / own_speeds
            points.append((bytes_per_s / GIGA, float(ratio[0])))
            ratios[bytes_per_s, hop] = ratio
        lines[f"{hop:g} µs per link"] = tuple(points)
    slow_link_ratios = {hop: ratios[RATES[0], hop] for hop in HOPS_US}
    token_s = 1 / float(own_speeds[0])
    bytes_per_token = sum(cut.bytes_per_token for cut in own.crossing.cuts)
    transfer_ratios = {batch: batch * bytes_per_token / RATES[0] / token_s for batch in BATCHES}
    is_fast_enough = np.array([1 - ratio <= LITTLE for ratio in slow_link_ratios.values()])
    return Finding(
        verdicts=by_rule(holds=is_fast_enough.all(axis=0), never=~is_fast_enough.any(axis=0)),
        answer=f"At 8 GB/s, a user of {with_type(SERVED)} on {wafers} wafers keeps "
        f"{100 * slow_link_ratios[5.0][0]:.1f} % of the speed with 5 µs per link and "
        f"{100 * slow_link_ratios[20.0][0]:.1f} % with 20 µs. Bandwidth matters only with many users: sending the "
        f"data of {BATCHES[-1]} users would take {transfer_ratios[BATCHES[-1]]:.1f} times the current time per token.",
        numbers={
            **{
                f"speed_8gb_{hop:g}us": figure(
                    ratio, "", f"speed with 8 GB/s and {hop:g} µs, relative to the wafers' own link"
                )
                for hop, ratio in slow_link_ratios.items()
            },
            **{
                f"bytes_share_{batch}": figure(
                    ratio,
                    "",
                    f"time to send the data of {plural(batch, 'user')} at 8 GB/s, relative to the time per token",
                )
                for batch, ratio in transfer_ratios.items()
            },
        },
        reason="the whole range of links was tried, with a new layout search for each",
        curves=Curves(x="link bandwidth, GB/s", y="speed, relative to the wafers' own link", lines=lines, log_x=True),
    )
