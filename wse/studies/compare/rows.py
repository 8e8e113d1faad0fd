"""The row of a comparison: what one report says, as plain numbers under names with their units."""

from __future__ import annotations

from typing import Final

from wse.report.as_json import Report
from wse.report.limits import fraction, limit_facts
from wse.request.compare_request import Link
from wse.serving.cost import money
from wse.serving.economics import Economics

COLUMNS: Final = (
    "trace",
    "model",
    "mapping",
    "chosen",
    "wafers",
    "link_bytes_per_s",
    "link_latency_s",
    "tokens_per_s_per_user",
    "tpot_s",
    "users",
    "tokens_per_s",
    "tokens_per_s_exact",
    "tokens_per_s_per_user_of_all",
    "prefill_tokens_per_s",
    "ttft_s",
    "mesh_hops_per_token",
    "wafer_link_bytes_per_token",
    "host_bytes_per_token",
    "crossing_fraction",
    "prefill_crossing_fraction",
    "sram_fullest_pe_fraction",
    "power_w",
    "joules_per_token",
    "usd_per_million_tokens",
    "usd_per_million_tokens_low",
    "usd_per_million_tokens_high",
    "usd_per_million_tokens_of_one_stream",
    "limited_by",
    "users_limited_by",
    "limit",
    "reason",
)
"""Every name that a row may have, in order: ``trace`` and ``model`` where it is of a run; ``chosen`` where the mapping
chose another; ``reason`` says why a combination could not be, and nothing else is known of it. A token's traffic is
that of a token of each user of one batch. ``tokens_per_s_per_user`` is that of a batch alone on the machine,
``tokens_per_s`` of all batches that are in flight, and joules and dollars are a token's of those.
"""


def row_of(report: Report, link: Link | None, economics: Economics, streams: int | None = None) -> Report:
    """The row of an estimate with decoded tokens.

    Args:
        report: As `wse.studies.estimate.estimate.estimate` gives it.
        link: The link between wafers that it is for; None with one wafer, which has no use for one.
        economics: What power and dollars are reckoned with.
        streams: Batches in flight, at most those whose caches fit; None for as many as fit.
    """
    decode, schedule, batch = report["decode"], report["schedule"], report["batch"]
    wafers = report["system"]["wafers"]
    held = schedule["kv_limited_streams"]
    flying = held if streams is None else min(streams, held)
    # M streams finish min(M, T / s) passes in the time T that one takes alone, s being the slowest server's share
    at_most = schedule["tokens_per_s_at_saturation"] * schedule["single_stream_tpot_s"] / batch
    together = decode["tokens_per_s"] * max(1.0, min(float(flying), at_most))
    row: Report = {"mapping": report["system"]["mapping"], "wafers": wafers}
    if link is not None:
        row |= {"link_bytes_per_s": link.bytes_per_s, "link_latency_s": link.latency_s}
    row |= {
        "tokens_per_s_per_user": decode["tokens_per_s_per_user"],
        "tpot_s": report["latency"]["tpot_s"],
        "users": flying * batch,
        "tokens_per_s": together,
        "tokens_per_s_exact": all(each["exact"] for each in schedule["rows"]),
        "tokens_per_s_per_user_of_all": together / (flying * batch),
        "prefill_tokens_per_s": report["prefill"]["tokens_per_s"],
        "ttft_s": report["latency"]["ttft_s"],
        "mesh_hops_per_token": report["fabric"]["wavelet_hops_per_token"],
        "wafer_link_bytes_per_token": report["crossing"]["bytes_per_token"],
        "host_bytes_per_token": report["crossing"]["host_bytes_per_token"],
        "crossing_fraction": fraction(decode["cycles_by"], "crossing"),
        "prefill_crossing_fraction": fraction(report["prefill"]["cycles_by"], "crossing"),
        "sram_fullest_pe_fraction": report["sram"]["fullest_pe_fraction"],
        **money(wafers, together, decode["tokens_per_s"], economics),
    }
    own = {} if link is None else {"link": {"bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s}}
    return {**row, **limit_facts({**report, **own})}


def economics_facts(economics: Economics) -> Report:
    """``economics``: the two assumptions that a row's power and dollars rest on, with grade, source and range."""
    names = ("wafer_power_w", "wafer_usd_per_hour")
    return {
        name: {
            "value": source.value,
            "unit": source.unit,
            "grade": source.grade,
            "source": source.source,
            **({} if source.range is None else {"range": list(source.range)}),
        }
        for name, source in ((name, economics.sources[name]) for name in names)
    }
