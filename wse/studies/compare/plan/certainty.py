"""Certainty of a ranking: in how many samples the cheaper machine is really cheaper, or too slow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wse.reports.intervals import share_above
from wse.serving.goal import Goal
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.result import CheaperResult, PlannedRow, RowSamples
from wse.studies.estimate.ranges.sampled_figures import COST


def cheaper_kinds(
    rows: Sequence[PlannedRow], samples: RowSamples, lengths: Sequence[tuple[int, int]], goal: Goal
) -> tuple[CheaperResult, ...]:
    """Return whether wafers or GPUs are cheaper per token, and how certain this is.

    For each pair of prompt and answer lengths, the best wafer machine is compared with the best GPU
    machine. A pair is left out if one of these machines is missing, misses the limits, or has an
    unknown cost. The machines and their numbers of replicas are the same in all samples.

    Args:
        rows: Rows of the ranking, best first.
        samples: For each row, its figures (such as cost) for random samples of the constants.
        lengths: (prompt tokens, new tokens) pairs.
        goal: The latency limits.
    """
    results = []
    for pair in lengths:
        rows_of_pair = [row for row in rows if (row.prompt_len, row.new_tokens) == pair]
        best_rows = [next((row for row in rows_of_pair if row.kind == kind), None) for kind in (WAFER, GPU)]
        known_rows = [row for row in best_rows if row is not None and row.keeps and COST in samples[row]]
        if len(known_rows) < len(best_rows):
            continue
        low, high = sorted(known_rows, key=_usd)
        results.append(
            CheaperResult(
                prompt_len=low.prompt_len,
                new_tokens=low.new_tokens,
                kind=low.kind,
                ratio=_usd(high) / _usd(low),
                share=share_above(samples[high][COST], samples[low][COST]),
                within_limits=_within_limits(known_rows, samples, goal),
                samples=len(samples[low][COST]),
            )
        )
    return tuple(results)


def _usd(row: PlannedRow) -> float:
    """Return the cost per million tokens in USD."""
    assert row.usd_per_million_tokens is not None  # only rows with a cost are compared
    return row.usd_per_million_tokens


def _within_limits(rows: Sequence[PlannedRow], samples: RowSamples, goal: Goal) -> dict[str, float] | None:
    """Return how likely each machine is to meet the latency limits: its fraction of samples.

    Args:
        rows: The row of a wafer machine and the row of a GPU machine.
        samples: For each row, its latencies for random samples of the uncertain constants.
        goal: The limits.

    Returns:
        Fractions from 0 to 1, keyed by ``wafer`` and ``gpu``; None if there are no limits.
    """
    limits = {"ttft_s": goal.ttft_s, "tpot_s": goal.tpot_s}
    if all(limit is None for limit in limits.values()):
        return None
    shares = {}
    for row in rows:
        is_within_by_limit = [
            samples[row][name] <= limit for name, limit in limits.items() if limit is not None and name in samples[row]
        ]
        shares[row.kind] = float(np.mean(np.all(is_within_by_limit, axis=0))) if is_within_by_limit else 1.0
    return shares
