"""Rows of a wafer comparison: created from estimates, without duplicates, best rows marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wse.errors import WseBug
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.economics import Economics
from wse.serving.operating_point import operating_point
from wse.serving.plan import saturating_users
from wse.studies.compare.request import WaferLink
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import TimedEstimate
from wse.studies.estimate.timing.pipelining import PipeliningResult
from wse.tracing.query.two_traces.comparison_row import (
    ALL_USERS,
    ONE_USER,
    ComparisonRow,
    StreamLimits,
    fraction,
    limits_of,
)


def row_of(
    timed_layout: TimedEstimate, request: EstimateRequest, link: WaferLink | None, economics: Economics
) -> ComparisonRow:
    """Create the comparison row for an estimate on wafers.

    The row has values for one user and for the maximum useful number of users: above this number,
    the throughput does not rise or the KV caches do not fit.

    Args:
        timed_layout: The estimate, which must include decoded tokens, and its deployment.
        request: The requested mapping, and the objective for which the layout was chosen.
        link: Inter-wafer link; None for a single wafer.
        economics: Power and price of a wafer.
    """
    result, deployment = timed_layout.result, timed_layout.deployment
    decode, pipelining, crossing = result.decode, result.schedule, result.crossing
    if decode is None or pipelining is None or crossing is None or result.bounds is None:
        raise WseBug("a row of a comparison needs an estimate with decoded tokens")
    system, chosen_mapping, mapping = result.system, result.system.mapping, str(request.mapping)
    limits = limits_of(
        decode.cycles_by,
        longest_line=max(max(stage.rows, stage.cols) for stage in system.stages),
        layers=1 + max(stage.layers[1] for stage in system.stages if stage.layers),
        crossing_bytes=crossing.bytes_per_token,
        link=None if link is None else (link.bytes_per_s, link.latency_s),
        arithmetic_cycles=result.bounds.token.bounds["arithmetic"],
        streams=_stream_limits(pipelining),
    )
    return ComparisonRow(
        mapping=mapping,
        chosen=None
        if chosen_mapping == Path(mapping).name
        else chosen_mapping,  # the mapping of a file is named by the file without its folders
        objective=request.serving.objective,
        for_users=request.serving.users,
        wafers=system.wafers,
        dtype=result.model.dtype,
        users_per_pass=result.batch,
        link_bytes_per_s=None if link is None else link.bytes_per_s,
        link_latency_s=None if link is None else link.latency_s,
        tokens_per_s_per_user=decode.tokens_per_s_per_user,
        tpot_s=result.latency.tpot_s,
        prefill_tokens_per_s=result.prefill.tokens_per_s,
        power_w=system.wafers * economics.power_w.value,
        mesh_hops_per_token=result.fabric.wavelet_hops_per_token,
        wafer_link_bytes_per_token=crossing.bytes_per_token,
        host_bytes_per_token=crossing.host_bytes_per_token,
        crossing_fraction=fraction(decode.cycles_by, "crossing"),
        prefill_crossing_fraction=fraction(result.prefill.cycles_by, "crossing"),
        sram_fullest_pe_fraction=result.sram.fullest_pe_fraction,
        cycles_by={str(cause): cycles for cause, cycles in decode.cycles_by.items()},
        **_user_numbers(deployment),
        **limits._asdict(),
    )


def _user_numbers(deployment: WaferDeployment) -> dict[str, Any]:
    """Return the fields of a comparison row that depend on the number of users.

    The fields describe the machine with one user and with the maximum useful number of users.
    Above this number, the throughput does not rise or the KV caches do not fit.

    Returns:
        Values, keyed by `ComparisonRow` field name. If not even one user fits, the only field is
        ``users``, which is 0.
    """
    if not deployment.max_concurrency:
        return {"users": 0}
    point, one_user_point = (operating_point(deployment, users) for users in (saturating_users(deployment), 1))
    cost, energy = point.usd_per_million_tokens, point.joules_per_token
    numbers: dict[str, Any] = {
        "users": point.users,
        "saturated": point.saturated,
        "ttft_s": one_user_point.ttft_s,
        "tokens_per_s": point.tokens_per_s,
        "tokens_per_s_exact": True,
        "tokens_per_s_per_user_of_all": point.tokens_per_s_per_user,
        "ttft_s_of_all": point.ttft_s,
        "joules_per_token": None if energy is None else energy.value,
    }
    if cost is not None and one_user_point.usd_per_million_tokens is not None:
        numbers |= cost.with_ends("usd_per_million_tokens")
        numbers["usd_per_million_tokens_of_one_user"] = one_user_point.usd_per_million_tokens.value
    return numbers


def _stream_limits(pipelining: PipeliningResult) -> StreamLimits:
    """Return what limits the number of streams (batches of users) that are in flight on wafers.

    A report uses it to state what limits the total throughput.
    """
    return StreamLimits(
        limited_by=pipelining.limited_by,
        users_per_stream=pipelining.users_per_stream,
        streams_to_saturate=pipelining.streams_to_saturate,
        kv_limited_streams=pipelining.kv_limited_streams,
        context_tokens=pipelining.context_tokens,
        busiest_server=max(pipelining.servers, key=lambda server: server.decode_busy_s).name,
    )


def with_best(rows: Sequence[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Return copies of the rows in which the field ``best`` marks the fastest rows.

    For each wafer count and inter-wafer link, one row is marked as best for one user and one as
    best for all users. These rows have the highest tokens/s of a single user and of all users
    together.
    """
    groups: dict[object, list[int]] = {}
    for index, row in enumerate(rows):
        if row.possible:
            groups.setdefault((row.wafers, row.link), []).append(index)
    best: dict[int, tuple[str, ...]] = {}
    for group in groups.values():
        for users, key in _BEST.items():
            first = max(group, key=lambda index: key(rows[index]))
            best[first] = (*best.get(first, ()), users)
    return tuple(replace(row, best=best.get(index)) for index, row in enumerate(rows))


_BEST: Final[dict[str, Callable[[ComparisonRow], float]]] = {
    ONE_USER: lambda row: row.tokens_per_s_per_user or 0.0,
    ALL_USERS: lambda row: row.tokens_per_s or 0.0,
}
"""Numbers that determine the best row, for one user and for all users."""


def assumptions_of(economics: Economics | None, machine: str = "") -> dict[str, AssumptionResult]:
    """Return the assumed power and price of a machine, with their sources.

    Args:
        economics: Power and price. If None (unknown), the result is empty.
        machine: Name to append to the keys, to distinguish several machines in one result.

    Returns:
        The assumptions. The keys are the same as in a file for ``--economics``, for example
        ``wafer_usd_per_hour``, or ``gpu_usd_per_hour.h100`` with a machine.
    """
    if economics is None:
        return {}
    numbers = {"power_w": economics.power_w, "usd_per_hour": economics.usd_per_hour}
    name = f".{machine}" if machine else ""
    return {f"{economics.kind}_{key}{name}": AssumptionResult.from_parts(number) for key, number in numbers.items()}
