"""Claims about chains of wafers: one user's speed, total throughput, and idle pipeline stages."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.number_text import plural
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.shared_computations import SharedComputations, default_wafer_link, with_type
from wse.studies.compare.request import WaferLink

MODEL: Final = "llama-3-8b"
SERVED: Final = "llama-3.1-70b"
COUNTS: Final = (1, 2, 4, 8)
HOPS_US: Final = (0.5, 5.0, 20.0)
"""Latencies of an inter-wafer link: a cut-through switch, the vendor's link, and a
store-and-forward switch."""
MICRO: Final = 1e-6
PROPORTIONAL: Final = 0.5
"""Minimum exponent of the wafer count in a token's time for a speed to fall "in proportion".

An exponent of 1 means exactly in proportion."""
MOSTLY: Final = 0.75
"""Fraction of a single wafer's throughput that each wafer in a chain must reach to confirm that no
throughput is lost."""


def longer_pipeline(shared_computations: SharedComputations) -> Finding:
    """Decide whether a model on N wafers is N times slower for one user than on one (claim 2).

    The speed is computed on 1 to 8 wafers for three inter-wafer link latencies.
    """
    lines, exponents = {}, {}
    for hop in HOPS_US:
        link = WaferLink(default_wafer_link().bytes_per_s, hop * MICRO)
        rates = [shared_computations.speeds(MODEL, link if wafers > 1 else None, wafers=wafers) for wafers in COUNTS]
        lines[f"{hop:g} µs per link"] = tuple(
            (float(count), float(rate[0])) for count, rate in zip(COUNTS, rates, strict=True)
        )
        exponents[hop] = np.log(rates[0] / rates[-1]) / np.log(COUNTS[-1] / COUNTS[0])
    four_wafers = shared_computations.estimate(SERVED)
    assert four_wafers.latency.tpot_by is not None
    assert four_wafers.latency.tpot_s is not None
    crossing_fraction = four_wafers.latency.tpot_by.crossing_s / four_wafers.latency.tpot_s
    speed_ratio = shared_computations.speed(MODEL, wafers=COUNTS[-1]) / shared_computations.speed(MODEL, wafers=1)
    outside_fraction = shared_computations.estimate(MODEL, wafers=1).latency.user.outside_share or 0.0
    is_proportional = np.array([exponent >= PROPORTIONAL for exponent in exponents.values()])
    builder = FindingBuilder(
        "longer_pipeline",
        model=with_type(MODEL),
        served=with_type(SERVED),
        max_wafers=COUNTS[-1],
        served_wafers=plural(four_wafers.system.wafers, "wafer"),
    )
    builder.add("speed_kept", speed_ratio)
    for hop, exponent in exponents.items():
        builder.add("exponent_{hop:g}us", exponent, hop=hop)
    builder.add("crossing_share", crossing_fraction)
    builder.add("outside_share", outside_fraction)
    return builder.finding(
        by_rule(holds=is_proportional.all(axis=0), never=~is_proportional.any(axis=0)),
        lines,
        proportional_speed=1 / COUNTS[-1],
        hops=", ".join(f"{hop:g}" for hop in HOPS_US),
    )


def latency_not_throughput(shared_computations: SharedComputations) -> Finding:
    """Decide whether adding wafers to a chain costs latency but not throughput (claim 3).

    Each wafer is one pipeline stage. Tokens/s per wafer are computed with one stream (one batch of
    users in the pipeline), and with enough streams to keep the slowest wafer busy.
    """
    builder, lines = FindingBuilder("latency_not_throughput", model=with_type(MODEL)), {}
    single_stream_rates, saturated_rates = [], []
    for wafers in COUNTS:
        result = shared_computations.estimate(MODEL, wafers=wafers, mapping="region")
        assert result.schedule is not None
        schedule = result.schedule
        single_stream_rates.append(shared_computations.speeds(MODEL, wafers=wafers, mapping="region") / wafers)
        saturated_rates.append(shared_computations.saturated_speeds(MODEL, wafers=wafers, mapping="region") / wafers)
        names = {"count": wafers, "wafers": plural(wafers, "wafer")}
        builder.add("alone_{count}", single_stream_rates[-1], **names)
        streams = plural(schedule.streams_to_saturate, "stream")
        builder.add("saturated_{count}", saturated_rates[-1], streams=streams, **names)
        builder.add("room_{count}", schedule.kv_limited_streams, **names)
        lines[f"{wafers} wafers"] = tuple((float(row.streams), row.tokens_per_s / wafers) for row in schedule.rows)
    single_stream_ratio = single_stream_rates[-1] / single_stream_rates[0]
    saturated_ratio = saturated_rates[-1] / saturated_rates[0]
    return builder.finding(
        by_rule(holds=single_stream_ratio >= MOSTLY, never=saturated_ratio < MOSTLY),
        lines,
        max_wafers=COUNTS[-1],
        single_stream_ratio=single_stream_ratio[0],
        saturated_ratio=saturated_ratio[0],
        max_streams=builder.numbers[f"room_{COUNTS[-1]}"].value,
    )


def bubbles(shared_computations: SharedComputations) -> Finding:
    """Decide whether pipeline stages are mostly idle unless there are many requests (claim 12).

    A stream is a batch that passes through the pipeline. With one stream, each stage is idle while
    the other stages work on it. The idle fraction is at least 1 minus the time of the slowest
    stage divided by the time per token. It is also simulated with as many streams as have room for
    their KV caches, and compared with the closed form

        (S - 1)/(M + S - 1),

    the fraction of time that S identical stages are idle when M streams enter an empty pipeline and
    run until it is empty again.
    """
    result = shared_computations.estimate(SERVED)
    assert result.schedule is not None
    schedule = result.schedule
    stages, first, last = schedule.stages, schedule.rows[0], schedule.rows[-1]
    min_idle_fractions = 1 - shared_computations.speeds(SERVED) / shared_computations.saturated_speeds(SERVED)
    max_streams = plural(last.streams, "stream")
    builder = FindingBuilder("bubbles", model=with_type(SERVED), wafers=result.system.wafers, max_streams=max_streams)
    builder.add("stages", stages)
    builder.add("idle_one", first.bubble_fraction)
    builder.add("idle_full", last.bubble_fraction)
    builder.add("idle_one_least", min_idle_fractions)
    builder.add("closed_form_one", (stages - 1) / (1 + stages - 1))
    builder.add("streams_to_saturate", schedule.streams_to_saturate)
    builder.add("streams_with_room", schedule.kv_limited_streams)
    lines = {
        "identical stages": tuple((float(m), (stages - 1) / (m + stages - 1)) for m in (1, 2, 4, 8, 16, 32)),
        "as compiled": tuple((float(row.streams), row.fill_and_drain_bubble_fraction) for row in schedule.rows),
    }
    return builder.finding(by_rule(holds=min_idle_fractions > 0.5, never=min_idle_fractions <= 0.5), lines)
