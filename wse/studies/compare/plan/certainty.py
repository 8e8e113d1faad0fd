"""Certainty of a ranking: in how many samples the cheaper machine is really cheaper, or too slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wse.arrays import F64
from wse.reports.intervals import share_above
from wse.serving.goal import Goal
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.result import CheaperResult, PlannedRow, RowSamples
from wse.studies.estimate.ranges.sampled_figures import COST


def cheaper_kinds(
    rows: Sequence[PlannedRow], samples: RowSamples, lengths: Sequence[tuple[int, int]]
) -> tuple[CheaperResult, ...]:
    """Return whether wafers or GPUs are cheaper per token, and how certain this is.

    For each pair of prompt and answer lengths, the best wafer machine is compared with the best GPU
    machine. A pair is left out if one of these machines is missing, misses the limits, or has an
    unknown cost. The machines and their numbers of replicas are the same in all samples.

    Args:
        rows: Rows of the ranking, best first.
        samples: For each row, its figures (such as cost) for random samples of the constants.
        lengths: (prompt tokens, new tokens) pairs.
    """
    results = []
    for pair in lengths:
        rows_of_pair = [row for row in rows if (row.prompt_len, row.new_tokens) == pair]
        best_rows = [next((row for row in rows_of_pair if row.kind == kind), None) for kind in (WAFER, GPU)]
        known_rows = [row for row in best_rows if row is not None and row.keeps and COST in samples[row]]
        if len(known_rows) < len(best_rows):
            continue
        wafers, gpus = known_rows
        low, high = sorted(known_rows, key=million_tokens_usd)
        break_even_usd = usd_per_chip_hour(wafers) * million_tokens_usd(gpus) / million_tokens_usd(wafers)
        results.append(
            CheaperResult(
                prompt_len=low.prompt_len,
                new_tokens=low.new_tokens,
                kind=low.kind,
                ratio=million_tokens_usd(high) / million_tokens_usd(low),
                share=share_above(samples[high][COST], samples[low][COST]),
                samples=len(samples[low][COST]),
                break_even_usd_per_wafer_hour=break_even_usd,
            )
        )
    return tuple(results)


def usd_per_chip_hour(row: PlannedRow) -> float:
    """Return the price of a wafer or GPU in USD per hour."""
    return (row.usd_per_hour or 0.0) / (row.replicas * row.chips)


def million_tokens_usd(row: PlannedRow) -> float:
    """Return the cost per million tokens in USD; 0 if the price is unknown."""
    return row.usd_per_million_tokens or 0.0


def share_within_limits(figures: Mapping[str, F64], goal: Goal) -> float | None:
    """Return the fraction of samples in which a machine meets the requested latency limits.

    Args:
        figures: float64 ``[samples]``, latencies for random samples of the uncertain constants,
            keyed by ``ttft_s`` and ``tpot_s``. A latency that is missing counts as within its
            limit.
        goal: The limits.

    Returns:
        Fraction from 0 to 1; None if there are no limits.
    """
    if not goal.limits_s:
        return None
    is_within_by_limit = [figures[name] <= limit for name, limit in goal.limits_s.items() if name in figures]
    return float(np.mean(np.all(is_within_by_limit, axis=0))) if is_within_by_limit else 1.0
