"""Rows of a comparison of models: what each estimate says, and which of them are worth a look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from wse.report.as_json import Report
from wse.report.comparison_row import ALL_USERS, ONE_USER, ComparisonRow
from wse.report.limits import fraction, limit_facts
from wse.request.compare_request import Link
from wse.serving.cost import money
from wse.serving.economics import Economics


def row_of(
    report: Report, mapping: str, link: Link | None, economics: Economics, streams: int | None = None
) -> ComparisonRow:
    """The row of an estimate with decoded tokens.

    Args:
        report: As `wse.studies.estimate.estimate.estimate` gives it.
        mapping: The mapping that was asked for.
        link: The link between wafers that it is for; None with one wafer, which has no use for one.
        economics: What power and dollars are reckoned with.
        streams: Batches in flight, at most those whose caches fit; None for as many as fit.
    """
    decode, schedule, batch = report["decode"], report["schedule"], report["batch"]
    wafers, chosen = report["system"]["wafers"], report["system"]["mapping"]
    room = schedule["kv_limited_streams"]
    flying = room if streams is None else min(streams, room)
    # M streams finish min(M, T / s) passes in the time T that one takes alone, s being the slowest server's share
    at_most = schedule["tokens_per_s_at_saturation"] * schedule["single_stream_tpot_s"] / batch
    of_all = decode["tokens_per_s"] * max(1.0, min(float(flying), at_most))
    own = {} if link is None else {"link": {"bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s}}
    cost: Report = {**money(wafers, of_all, decode["tokens_per_s"], economics)}
    return ComparisonRow(
        mapping=mapping,
        chosen=None if chosen == mapping else chosen,
        wafers=wafers,
        link_bytes_per_s=None if link is None else link.bytes_per_s,
        link_latency_s=None if link is None else link.latency_s,
        tokens_per_s_per_user=decode["tokens_per_s_per_user"],
        tpot_s=report["latency"]["tpot_s"],
        users=flying * batch,
        tokens_per_s=of_all,
        tokens_per_s_exact=all(each["exact"] for each in schedule["rows"]),
        tokens_per_s_per_user_of_all=of_all / (flying * batch),
        prefill_tokens_per_s=report["prefill"]["tokens_per_s"],
        ttft_s=report["latency"]["ttft_s"],
        mesh_hops_per_token=report["fabric"]["wavelet_hops_per_token"],
        wafer_link_bytes_per_token=report["crossing"]["bytes_per_token"],
        host_bytes_per_token=report["crossing"]["host_bytes_per_token"],
        crossing_fraction=fraction(decode["cycles_by"], "crossing"),
        prefill_crossing_fraction=fraction(report["prefill"]["cycles_by"], "crossing"),
        sram_fullest_pe_fraction=report["sram"]["fullest_pe_fraction"],
        cycles_by=decode["cycles_by"],
        **cost,
        **limit_facts({**report, **own}),
    )


def without_doubles(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The rows without those of a mapping that chose another one, where the row of that other one says the same."""
    rows = list(rows)
    named = {(row.mapping, row.wafers, row.link): row.tpot_s for row in rows if row.possible}
    return [
        row for row in rows if row.chosen is None or named.get((row.chosen, row.wafers, row.link), 0.0) != row.tpot_s
    ]


def with_best(rows: Sequence[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """The rows, those marked that are the best of as many wafers and the same link for one user, and for all users."""
    groups: dict[object, list[ComparisonRow]] = {}
    for row in rows:
        if row.possible:
            groups.setdefault((row.wafers, row.link), []).append(row)
    best: dict[int, tuple[str, ...]] = {}
    for group in groups.values():
        for what, key in _BEST.items():
            row = max(group, key=key)
            best[id(row)] = (*best.get(id(row), ()), what)
    return tuple(replace(row, best=best.get(id(row))) for row in rows)


_BEST: Final[dict[str, Callable[[ComparisonRow], float]]] = {
    ONE_USER: lambda row: row.tokens_per_s_per_user or 0.0,
    ALL_USERS: lambda row: row.tokens_per_s or 0.0,
}


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
