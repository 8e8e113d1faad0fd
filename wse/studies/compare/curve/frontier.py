"""Frontiers of speed and cost: for each speed that a user may want, the cheapest token of some machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.machine import WAFER


def with_best(rows: Sequence[CurveRow]) -> tuple[CurveRow, ...]:
    """The rows, those marked than which none of the same kind is as fast and cheaper: all wafers, or each GPU."""
    groups: dict[str, list[CurveRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    best = {id(row) for group in groups.values() for row in frontier(group)}
    return tuple(replace(row, best=True) if id(row) in best else row for row in rows)


def group_of(row: CurveRow) -> str:
    """The machines that a row is compared with: all wafers are alternatives of each other, a GPU stands for itself."""
    return row.kind if row.kind == WAFER else row.machine


def frontier(rows: Iterable[CurveRow]) -> list[CurveRow]:
    """Return the rows than which no other is as fast for a user and cheaper, the fastest first."""
    best: list[CurveRow] = []
    for row in sorted(rows, key=lambda row: (-row.tokens_per_s_per_user, row.usd_per_million_tokens)):
        if not best or row.usd_per_million_tokens < best[-1].usd_per_million_tokens:
            best.append(row)
    return best
