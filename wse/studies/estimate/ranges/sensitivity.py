"""Sensitivity of an estimate: the same request, repeated with one number of the machine changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from wse.errors import BadInput, DoesNotFit
from wse.hardware.load import load_software
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import ChangeResult, EstimateResult
from wse.studies.estimate.sram import RESEARCH
from wse.studies.options.option import replace_options
from wse.studies.options.settings import with_replaced

NUMBERS: Final = ("wafers", "kv_capacity_tokens", "ttft_s", "tokens_per_s_per_user", "tokens_per_s")
"""Fields of `ChangeResult` that are compared with those of the unchanged request."""


def changed_requests(prepared_estimate: PreparedEstimate) -> dict[str, EstimateRequest]:
    """Return copies of a request, each with one number of the machine changed.

    The changes are slower hops, more SRAM, a faster link between wafers, and the larger code of
    research kernels. With larger code, PEs have less room, so the number of wafers is chosen again.
    All other copies keep the number of wafers.

    Returns:
        The requests, keyed by a description of the change.
    """
    request, wafer = prepared_estimate.request, prepared_estimate.whole
    research_code_bytes = load_software(RESEARCH, wafer.generation).code_bytes_per_pe

    def on_wafer(key: str, value: float) -> EstimateRequest:
        """Return a copy of the request in which one number of the wafer has another value."""
        return replace_options(request, wafer_values=with_replaced(request.machine.wafer_values, {key: value}))

    with_code = with_replaced(request.machine.software_values, {"code_bytes_per_pe": research_code_bytes})
    return {
        "one more cycle a hop": on_wafer("hop_cycles", wafer.hop_cycles + 1),
        "10 % more SRAM a PE": on_wafer("sram_bytes_per_pe", wafer.sram_bytes_per_pe * 11 // 10),
        "twice the wafer link": on_wafer("wafer_link_bytes_per_s", 2 * wafer.wafer_link_bytes_per_s),
        "research code": replace_options(request, software_values=with_code, wafers=None),
    }


def sensitivity_result(
    result: EstimateResult,
    requests: Mapping[str, EstimateRequest],
    estimate_request: Callable[[str, EstimateRequest], EstimateResult],
) -> tuple[ChangeResult, ...]:
    """Return how the main numbers of an estimate depend on changes to the machine.

    Args:
        result: Result without changes.
        requests: Changed requests, keyed by name of the change.
        estimate_request: Function that estimates a request. Its first argument is the name of the
            change, for progress messages.

    Returns:
        One record per change, with the new numbers and their ratios to the unchanged numbers. If
        the model no longer fits, the record only says so.
    """
    original_row = _row("", result)
    rows: list[ChangeResult] = []
    for name, request in requests.items():
        try:
            changed_row = _row(name, estimate_request(name, request))
        except (BadInput, DoesNotFit):  # the model, or the caches of the users
            rows.append(ChangeResult(change=name, fits=False))
            continue
        pairs = ((key, getattr(original_row, key), getattr(changed_row, key)) for key in NUMBERS)
        rows.append(replace(changed_row, factors={key: new / old for key, old, new in pairs if old}))
    return tuple(rows)


def _row(name: str, result: EstimateResult) -> ChangeResult:
    """Return the main numbers of the estimate with a change, still without factors."""
    return ChangeResult.from_parts(
        result.system, result.sram, result.latency, result.decode, change=name, fits=True, factors=None
    )
