"""Claims about chains of wafers: one user's speed, total throughput, and idle pipeline stages."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.terminal import plural
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.laboratory import Laboratory, own_link, with_type
from wse.studies.claims.result import Curves, Finding, figure
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


def longer_pipeline(lab: Laboratory) -> Finding:
    """Decide whether a model on N wafers is N times slower for one user than on one (claim 2).

    The speed is computed on 1 to 8 wafers for three inter-wafer link latencies.
    """
    lines, exponents = {}, {}
    for hop in HOPS_US:
        link = WaferLink(own_link().bytes_per_s, hop * MICRO)
        rates = [lab.speeds(MODEL, link if wafers > 1 else None, wafers=wafers) for wafers in COUNTS]
        lines[f"{hop:g} µs per link"] = tuple(
            (float(count), float(rate[0])) for count, rate in zip(COUNTS, rates, strict=True)
        )
        exponents[hop] = np.log(rates[0] / rates[-1]) / np.log(COUNTS[-1] / COUNTS[0])
    four_wafers = lab.estimate(SERVED)
    assert four_wafers.latency.tpot_by is not None
    assert four_wafers.latency.tpot_s is not None
    crossing_fraction = four_wafers.latency.tpot_by.crossing_s / four_wafers.latency.tpot_s
    speed_ratio = lab.speed(MODEL, wafers=COUNTS[-1]) / lab.speed(MODEL, wafers=1)
    outside_fraction = lab.estimate(MODEL, wafers=1).latency.user.outside_share or 0.0
    is_proportional = np.array([exponent >= PROPORTIONAL for exponent in exponents.values()])
    return Finding(
        verdicts=by_rule(holds=is_proportional.all(axis=0), never=~is_proportional.any(axis=0)),
        answer=f"{with_type(MODEL)} on {COUNTS[-1]} wafers keeps {100 * speed_ratio:.0f} % of its single-wafer speed. "
        f"A proportional loss would leave {100 / COUNTS[-1]:.0f} %. For {with_type(SERVED)} on "
        f"{four_wafers.system.wafers} wafers, crossings between wafers account for {100 * crossing_fraction:.1f} % of "
        "the time per token.",
        numbers={
            "speed_kept": figure(
                speed_ratio, "", f"speed per user of {with_type(MODEL)} on {COUNTS[-1]} wafers, relative to one wafer"
            ),
            **{
                f"exponent_{hop:g}us": figure(
                    exponent,
                    "",
                    f"exponent of the wafer count in the time per token with {hop:g} µs per link; 1 means proportional",
                )
                for hop, exponent in exponents.items()
            },
            "crossing_share": figure(
                crossing_fraction,
                "",
                f"fraction of the time per token spent on crossings: {with_type(SERVED)} on "
                f"{plural(four_wafers.system.wafers, 'wafer')}",
            ),
            "outside_share": figure(
                outside_fraction,
                "",
                "fraction of response latency due to network, connection and service: 1,024 output tokens of "
                f"{with_type(MODEL)}",
            ),
        },
        reason=f"times of the compiled model with links of {', '.join(f'{hop:g}' for hop in HOPS_US)} µs",
        curves=Curves(x="wafers", y="tokens/s per user", lines=lines, log_x=True),
    )


def latency_not_throughput(lab: Laboratory) -> Finding:
    """Decide whether adding wafers to a chain costs latency but not throughput (claim 3).

    Each wafer is one pipeline stage. Tokens/s per wafer are computed with one stream (one batch of
    users in the pipeline), and with enough streams to keep the slowest wafer busy.
    """
    numbers, lines = {}, {}
    single_stream_rates, saturated_rates = [], []
    for wafers in COUNTS:
        result = lab.estimate(MODEL, wafers=wafers, mapping="region")
        assert result.schedule is not None
        schedule = result.schedule
        single_stream_rates.append(lab.speeds(MODEL, wafers=wafers, mapping="region") / wafers)
        saturated_rates.append(lab.saturated_speeds(MODEL, wafers=wafers, mapping="region") / wafers)
        numbers[f"alone_{wafers}"] = figure(
            single_stream_rates[-1],
            "tokens/s/wafer",
            f"with one stream of {with_type(MODEL)} on {plural(wafers, 'wafer')}, mapping region",
        )
        streams = f"with {plural(schedule.streams_to_saturate, 'stream')}, enough to keep the slowest wafer busy"
        numbers[f"saturated_{wafers}"] = figure(saturated_rates[-1], "tokens/s/wafer", streams)
        meaning = f"whose KV caches fit alongside {with_type(MODEL)} on {plural(wafers, 'wafer')}"
        numbers[f"room_{wafers}"] = figure(schedule.kv_limited_streams, "streams", meaning)
        lines[f"{wafers} wafers"] = tuple((float(row.streams), row.tokens_per_s / wafers) for row in schedule.rows)
    single_stream_ratio = single_stream_rates[-1] / single_stream_rates[0]
    saturated_ratio = saturated_rates[-1] / saturated_rates[0]
    return Finding(
        verdicts=by_rule(holds=single_stream_ratio >= MOSTLY, never=saturated_ratio < MOSTLY),
        answer=f"With a single stream, only one wafer works at a time: on {COUNTS[-1]} wafers, the throughput per "
        f"wafer is {100 * single_stream_ratio[0]:.0f} % of a single wafer's. With enough streams to keep the slowest "
        f"wafer busy, it is {100 * saturated_ratio[0]:.0f} %, and the KV caches of "
        f"{numbers[f'room_{COUNTS[-1]}'].value:,.0f} streams fit.",
        numbers=numbers,
        reason="stage times of the compiled model; a closed-form pipeline model and an event simulation agree",
        curves=Curves(x="streams in flight", y="tokens/s per wafer", lines=lines, log_x=True, log_y=True),
    )


def bubbles(lab: Laboratory) -> Finding:
    """Decide whether pipeline stages are mostly idle unless there are many requests (claim 12).

    A stream is a batch that passes through the pipeline. With one stream, each stage is idle while
    the other stages work on it. The idle fraction is at least 1 minus the time of the slowest
    stage divided by the time per token. It is also simulated with as many streams as have room for
    their KV caches, and compared with the closed form

        (S - 1)/(M + S - 1),

    the fraction of time that S identical stages are idle when M streams enter an empty pipeline and
    run until it is empty again.
    """
    result = lab.estimate(SERVED)
    assert result.schedule is not None
    schedule = result.schedule
    stages, streams_to_saturate = schedule.stages, schedule.streams_to_saturate
    first, last = schedule.rows[0], schedule.rows[-1]
    closed_form = (stages - 1) / (1 + stages - 1)
    min_idle_fractions = 1 - lab.speeds(SERVED) / lab.saturated_speeds(SERVED)
    streams = (1, 2, 4, 8, 16, 32)
    return Finding(
        verdicts=by_rule(holds=min_idle_fractions > 0.5, never=min_idle_fractions <= 0.5),
        answer=f"{with_type(SERVED)} has {stages} stages. With one stream, they are idle "
        f"{100 * first.bubble_fraction:.0f} % of the time. {streams_to_saturate} streams would keep the slowest stage "
        f"busy, and the KV caches of {plural(last.streams, 'stream')} fit: SRAM limits the number of streams.",
        numbers={
            "stages": figure(stages, "stages", f"of {with_type(SERVED)} on {result.system.wafers} wafers"),
            "idle_one": figure(first.bubble_fraction, "", "fraction of time that stages are idle, with one stream"),
            "idle_full": figure(
                last.bubble_fraction,
                "",
                f"the same with {plural(last.streams, 'stream')}, the maximum whose KV caches fit",
            ),
            "idle_one_least": figure(
                min_idle_fractions,
                "",
                "lower bound: 1 minus the time of the slowest stage divided by the time per token",
            ),
            "closed_form_one": figure(closed_form, "", "(S - 1)/(M + S - 1) for identical stages, with one stream"),
            "streams_to_saturate": figure(streams_to_saturate, "streams", "that keep the slowest stage busy"),
            "streams_with_room": figure(
                schedule.kv_limited_streams, "streams", "whose KV caches fit alongside the weights"
            ),
        },
        reason="time of the slowest stage and time per token of the compiled model; an event simulation agrees",
        curves=Curves(
            x="streams in flight",
            y="fraction of time that stages are idle",
            lines={
                "identical stages": tuple((float(m), (stages - 1) / (m + stages - 1)) for m in streams),
                "as compiled": tuple((float(row.streams), row.fill_and_drain_bubble_fraction) for row in schedule.rows),
            },
            log_x=True,
        ),
    )
