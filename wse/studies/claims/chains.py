"""Claims about chains of wafers: one user's speed, the throughput of all, and stages that stand idle."""

from __future__ import annotations

import math
from typing import Final

from wse.studies.claims.claim import Curves, Finding, by_rule, figure
from wse.studies.claims.laboratory import Laboratory, own_link, wafer_link, with_type

MODEL: Final = "llama-3-8b"
SERVED: Final = "llama-3.1-70b"
COUNTS: Final = (1, 2, 4, 8)
HOPS_US: Final = (0.5, 5.0, 20.0)
"""Latencies of a link between wafers: a switch that cuts through, the vendor's, one that stores and forwards."""
MICRO: Final = 1e-6
PROPORTIONAL: Final = 0.5
"""The exponent of wafers in a user's speed from which it falls "in proportion"; 1 would be exactly so."""
MOSTLY: Final = 0.75
"""Share of one wafer's throughput that each of several keeps where chaining is said not to lower it."""


def longer_pipeline(lab: Laboratory) -> Finding:
    """Claim 2: one user's speed against the number of wafers in a chain, for three latencies of a link."""
    lines, exponents = {}, {}
    for hop in HOPS_US:
        link = wafer_link(own_link().bytes_per_s, hop * MICRO)
        rates = []
        for wafers in COUNTS:
            decode = lab.estimate(MODEL, link if wafers > 1 else None, wafers=wafers).decode
            assert decode is not None
            rates.append(decode.tokens_per_s_per_user)
        lines[f"{hop:g} µs a link"] = tuple(zip(map(float, COUNTS), rates, strict=True))
        exponents[hop] = math.log(rates[0] / rates[-1]) / math.log(COUNTS[-1] / COUNTS[0])
    one, many = lab.estimate(MODEL, wafers=1), lab.estimate(MODEL, wafers=COUNTS[-1])
    assert one.decode is not None
    assert many.decode is not None
    assert many.latency.tpot_by is not None
    four = lab.estimate(SERVED)
    assert four.latency.tpot_by is not None
    assert four.latency.tpot_s is not None
    share = four.latency.tpot_by.crossing_s / four.latency.tpot_s
    kept = many.decode.tokens_per_s_per_user / one.decode.tokens_per_s_per_user
    outside = one.latency.user.outside_share or 0.0
    return Finding(
        verdict=by_rule(
            holds=all(exponent >= PROPORTIONAL for exponent in exponents.values()),
            never=all(exponent < PROPORTIONAL for exponent in exponents.values()),
        ),
        answer=f"{with_type(MODEL)} on {COUNTS[-1]} wafers keeps {100 * kept:.0f} % of its speed on one; in "
        "proportion would be "
        f"{100 / COUNTS[-1]:.0f} %. The layers take as long wherever they are: crossings are {100 * share:.1f} % of a "
        f"token of {with_type(SERVED)} on {four.system.wafers}.",
        numbers={
            "speed_kept": figure(
                kept, "", f"speed of a user of {with_type(MODEL)} on {COUNTS[-1]} wafers over that on one"
            ),
            **{
                f"exponent_{hop:g}us": figure(
                    exponent,
                    "",
                    f"power of the wafers that a token's time grows with, {hop:g} µs a link; 1: in proportion",
                )
                for hop, exponent in exponents.items()
            },
            "crossing_share": figure(
                share, "", f"share of crossings in a token of {with_type(SERVED)} on {four.system.wafers} wafers"
            ),
            "outside_share": figure(
                outside,
                "",
                f"share of network, connection and service in an answer of 1,024 tokens of {with_type(MODEL)}",
            ),
        },
        confidence="high",
        reason="the verdict is the same from 0.5 to 20 µs a link",
        curves=Curves(x="wafers", y="tokens/s of a user", lines=lines, log_x=True),
    )


def latency_not_throughput(lab: Laboratory) -> Finding:
    """Claim 3: tokens of all users a wafer, of one stream and of as many as keep the slowest wafer busy.

    Each wafer is one stage, so that there are as many stages as wafers.
    """
    numbers, lines = {}, {}
    alone, full = [], []
    for wafers in COUNTS:
        result = lab.estimate(MODEL, wafers=wafers, mapping="region")
        assert result.decode is not None
        assert result.schedule is not None
        schedule = result.schedule
        alone.append(result.decode.tokens_per_s_per_user / wafers)
        full.append(schedule.tokens_per_s_at_saturation / wafers)
        numbers[f"alone_{wafers}"] = figure(
            alone[-1], "tokens/s/wafer", f"of one stream of {with_type(MODEL)} on {wafers}"
        )
        streams = f"of {schedule.streams_to_saturate} streams, which keep the slowest wafer busy"
        numbers[f"saturated_{wafers}"] = figure(full[-1], "tokens/s/wafer", streams)
        room = f"whose caches fit beside {with_type(MODEL)} on {wafers}"
        numbers[f"room_{wafers}"] = figure(schedule.kv_limited_streams, "streams", room)
        lines[f"{wafers} wafers"] = tuple((float(row.streams), row.tokens_per_s / wafers) for row in schedule.rows)
    kept_alone, kept_full = alone[-1] / alone[0], full[-1] / full[0]
    return Finding(
        verdict=by_rule(holds=kept_alone >= MOSTLY, never=kept_full < MOSTLY),
        answer=f"With one stream all wafers but one stand idle: {COUNTS[-1]} of them keep {100 * kept_alone:.0f} % of "
        f"one wafer's tokens/s a wafer. With as many streams as wafers they keep {100 * kept_full:.0f} %, and there is "
        f"room for {numbers[f'room_{COUNTS[-1]}'].value:,.0f} streams.",
        numbers=numbers,
        confidence="high",
        reason="a closed form of pipelines, the same event by event, over stage times as compiled",
        curves=Curves(x="streams in flight", y="tokens/s a wafer", lines=lines, log_x=True, log_y=True),
    )


def bubbles(lab: Laboratory) -> Finding:
    """Claim 12: idle time of stages with M streams, (S - 1)/(M + S - 1) from empty to empty, and how many fit."""
    result = lab.estimate(SERVED)
    assert result.schedule is not None
    schedule = result.schedule
    stages, fit, needed = schedule.stages, schedule.kv_limited_streams, schedule.streams_to_saturate
    first, last = schedule.rows[0], schedule.rows[-1]
    closed = (stages - 1) / (1 + stages - 1)
    streams = (1, 2, 4, 8, 16, 32)
    return Finding(
        verdict="true" if first.bubble_fraction > 0.5 else "false",
        answer=f"{with_type(SERVED)} has {stages} stages, which are idle {100 * first.bubble_fraction:.0f} % of the "
        "time with one "
        f"stream; {needed} would keep the slowest busy, and the caches of {last.streams} fit: SRAM decides how many "
        "there are.",
        numbers={
            "stages": figure(stages, "stages", f"of {with_type(SERVED)} on {result.system.wafers} wafers"),
            "idle_one": figure(first.bubble_fraction, "", "share of time that stages are idle with one stream"),
            "idle_full": figure(
                last.bubble_fraction, "", f"the same with {last.streams}, as many as caches have room for"
            ),
            "closed_form_one": figure(closed, "", "(S - 1)/(M + S - 1) of equal stages with one stream"),
            "streams_to_saturate": figure(needed, "streams", "that keep the slowest stage busy"),
            "streams_with_room": figure(fit, "streams", "whose caches fit beside the weights"),
        },
        confidence="high",
        reason="stage times as compiled, counted event by event",
        curves=Curves(
            x="streams in flight",
            y="share of time that stages are idle",
            lines={
                "equal stages": tuple((float(m), (stages - 1) / (m + stages - 1)) for m in streams),
                "as compiled": tuple((float(row.streams), row.fill_and_drain_bubble_fraction) for row in schedule.rows),
            },
            log_x=True,
        ),
    )
