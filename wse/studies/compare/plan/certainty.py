"""Certainty of a ranking: in how many samples the cheaper kind of machine is really cheaper."""

from __future__ import annotations

from collections.abc import Sequence

from wse.reports.intervals import share_above
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.result import CheaperResult, CostSamples, PlannedRow


def cheaper_kinds(
    rows: Sequence[PlannedRow], costs: CostSamples, lengths: Sequence[tuple[int, int]]
) -> tuple[CheaperResult, ...]:
    """Return whether wafers or GPUs are cheaper per token, and how certain this is.

    For each pair of lengths, the best row of wafers is compared with the best row of GPUs. A pair
    is left out if one of these rows does not exist, misses the limits or has an unknown cost.

    Args:
        rows: Rows of the ranking, best first.
        costs: Samples of the cost of a token, keyed by row.
        lengths: (prompt tokens, new tokens) pairs.
    """
    results = []
    for pair in lengths:
        rows_of_pair = [row for row in rows if (row.prompt_len, row.new_tokens) == pair]
        best_rows = [next((row for row in rows_of_pair if row.kind == kind), None) for kind in (WAFER, GPU)]
        known_rows = [row for row in best_rows if row is not None and row.keeps and row.usd_per_million_tokens]
        if len(known_rows) < len(best_rows):
            continue
        low, high = sorted(known_rows, key=lambda row: row.usd_per_million_tokens or 0.0)
        low_samples, high_samples = costs[low], costs[high]
        if low_samples is None or high_samples is None:
            continue
        results.append(
            CheaperResult(
                prompt_len=low.prompt_len,
                new_tokens=low.new_tokens,
                kind=low.kind,
                ratio=(high.usd_per_million_tokens or 0.0) / (low.usd_per_million_tokens or 1.0),
                share=share_above(high_samples, low_samples),
                samples=len(low_samples),
            )
        )
    return tuple(results)
