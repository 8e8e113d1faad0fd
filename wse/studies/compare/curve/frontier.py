"""Speed-cost frontiers: the rows with the cheapest token for each speed per user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.machine import WAFER


def with_best(rows: Sequence[CurveRow]) -> tuple[CurveRow, ...]:
    """Mark the rows that are on the frontier of speed and cost by setting ``best``.

    A row is on the frontier if no other row of its group is at least as fast and at most as
    expensive. All wafers form one group, and each GPU machine forms its own group.
    """
    groups: dict[str, list[CurveRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    best = {id(row) for group in groups.values() for row in frontier(group)}
    return tuple(replace(row, best=True) if id(row) in best else row for row in rows)


def group_of(row: CurveRow) -> str:
    """Return the name of the group of rows among which the best ones are marked.

    All wafers form one group, because they are alternatives to each other. Each GPU machine forms
    its own group.
    """
    return row.kind if row.kind == WAFER else row.machine


def frontier(rows: Iterable[CurveRow]) -> list[CurveRow]:
    """Return the rows that have the cheapest token at their speed or above, fastest first.

    A row is left out if another row is at least as fast and at most as expensive.
    """
    best: list[CurveRow] = []
    for row in sorted(rows, key=lambda row: (-row.tokens_per_s_per_user, row.usd_per_million_tokens)):
        if not best or row.usd_per_million_tokens < best[-1].usd_per_million_tokens:
            best.append(row)
    return best
