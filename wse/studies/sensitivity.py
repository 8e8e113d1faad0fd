"""What another wafer would change: the same request once more with one number of the wafer changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.studies.estimate_request import Change
from wse.studies.facts import Report

CHANGES: Final[dict[str, Change]] = {
    "one more cycle a hop": lambda wafer: replace(wafer, hop_cycles=wafer.hop_cycles + 1),
    "10 % more SRAM a PE": lambda wafer: replace(wafer, sram_bytes_per_pe=wafer.sram_bytes_per_pe * 11 // 10),
    "twice the wafer link": lambda wafer: replace(wafer, wafer_link_bytes_per_s=2 * wafer.wafer_link_bytes_per_s),
}


def sensitivity_facts(report: Report, estimate_with: Callable[[str, Change], Report]) -> list[Report]:
    """``sensitivity``: for each change what it gives, and by which factor that differs from ``report``.

    ``estimate_with`` gives the report of the request on a wafer that is changed so, wafers left to be found anew where
    they were; the name is for people.
    """
    before = _leading(report)
    rows = []
    for name, change in CHANGES.items():
        after = _leading(estimate_with(name, change))
        factors = {key: after[key] / value for key, value in before.items() if value}
        rows.append({"change": name, **after, "factors": factors})
    return rows


def _leading(report: Report) -> dict[str, float]:
    """The numbers that are compared."""
    leading = {
        "wafers": report["system"]["wafers"],
        "kv_capacity_tokens": report["sram"]["kv_capacity_tokens"],
        "ttft_s": report["latency"]["ttft_s"],
    }
    if "decode" in report:
        leading["tokens_per_s_per_user"] = report["decode"]["tokens_per_s_per_user"]
        leading["tokens_per_s"] = report["decode"]["tokens_per_s"]
    return leading
