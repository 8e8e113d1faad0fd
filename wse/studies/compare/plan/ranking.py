"""Order of ranked machines: limits of latency, the objective, and the Pareto frontier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.studies.compare.plan.result import PlannedRow


def with_pareto(rows: Sequence[PlannedRow]) -> list[PlannedRow]:
    """Return the rows, with ``pareto`` set for rows that no other row beats in speed and cost."""
    return [replace(row, pareto=not any(_surpasses(other_row, row) for other_row in rows)) for row in rows]


def _surpasses(row: PlannedRow, other_row: PlannedRow) -> bool:
    """Return whether ``row`` dominates ``other_row``: better in speed or cost, worse in neither.

    Numbers are rounded to three significant digits first, because tables show no smaller
    differences.
    """
    pairs = (
        (_three_digits(row.tokens_per_s_per_user), _three_digits(other_row.tokens_per_s_per_user)),
        (-_three_digits(row.usd_per_million_tokens), -_three_digits(other_row.usd_per_million_tokens)),
    )
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _three_digits(value: float | None) -> float:
    """Round a number to three significant digits; return 0 if the number is unknown."""
    return float(f"{value or 0.0:.3g}")


def rank(row: PlannedRow, goal: Goal) -> tuple[bool, float]:
    """Return the sort key of a row; the best row has the smallest key.

    Rows that meet the limits come first, sorted by the objective (latency of a request, throughput
    or cost). All other rows follow, sorted by how far they exceed the limits.
    """
    if not row.keeps:
        return True, row.excess
    if goal.objective == LATENCY:
        return False, row.ttft_s + (row.new_tokens - 1) * (row.tpot_s or 0.0)
    if goal.objective == THROUGHPUT:
        return False, -row.tokens_per_s
    return False, row.usd_per_million_tokens or 0.0


def usd_per_hour(row: PlannedRow) -> float:
    """Return the price of a machine per hour; infinity if no price is known."""
    return math.inf if row.usd_per_hour is None else row.usd_per_hour


def compares_hours(goal: Goal) -> bool:
    """Return whether machines are also compared by their price per hour.

    This is the case if a number of users is given and the objective is cost.
    """
    return goal.users is not None and goal.objective == COST
