"""CurveRow: the operating point of one machine with a certain number of users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Final

from wse.reports.intervals import RangeResult
from wse.reports.result import Doc, Result
from wse.studies.compare.machine import WAFER

PLAIN, FAST = "plain", "fast"
"""Service tiers.

A row in the plain tier has the maximum number of users at the plain service speed. A row in the
fast tier has the maximum number of users at `FAST_TIMES` that speed.
"""
TIER_SEPARATOR: Final = ", "


class CurveRow(Result):
    """Speed, cost and energy of one machine with a certain number of concurrent users."""

    machine: Annotated[str, Doc("description of the machine")]
    kind: Annotated[str, Doc("`wafer` or `gpu`")]
    name: Annotated[str, Doc("name of the wafer or GPU")]
    chips: Annotated[int, Doc("number of wafers or GPUs")]
    dtype: Annotated[str, Doc("element type of the weights of linear layers; in 4-bit mixtures, of the experts")]
    software: Annotated[str, Doc("mapping on wafers, serving stack on GPUs")]
    users: Annotated[int, Doc("concurrent users: requests in flight")]
    ttft_s: Annotated[float, Doc("mean time to first token", "s")]
    tokens_per_s_per_user: Annotated[
        float, Doc("output tokens/s of a user after the first token, including stalls by prefill of others", "1/s")
    ]
    tokens_per_s: Annotated[float, Doc("output tokens of all users", "1/s")]
    usd_per_million_tokens: Annotated[float, Doc("price of a million output tokens, prompts included", "USD")]
    usd_per_million_tokens_low: Annotated[
        float, Doc("price of a million output tokens at the low end of the price range", "USD")
    ]
    usd_per_million_tokens_high: Annotated[
        float, Doc("price of a million output tokens at the high end of the price range", "USD")
    ]
    joules_per_token: Annotated[float, Doc("energy of an output token at the power of all chips", "J")]
    joules_per_token_low: Annotated[float, Doc("energy of an output token at the low end of the power range", "J")]
    joules_per_token_high: Annotated[float, Doc("energy of an output token at the high end of the power range", "J")]
    tier: Annotated[
        str | None,
        Doc("`plain`: the most users at the plain service speed; `fast`: the most at 2.5 times that; or both"),
    ] = None
    best: Annotated[
        bool, Doc("whether no row of the same kind (all wafers, or all GPUs of a type) is at least as fast and cheaper")
    ] = False
    ranges: Annotated[
        Mapping[str, RangeResult] | None, Doc("90 % intervals of figures of this row; keys are their names")
    ] = field(default=None, hash=False)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Service tiers that the row represents: ``plain``, ``fast``, both or, usually, none."""
        return () if self.tier is None else tuple(self.tier.split(TIER_SEPARATOR))


COLUMNS: Final = tuple(field.name for field in fields(CurveRow) if field.name != "ranges")
"""Columns of CSV files, in order."""


def with_best(rows: Sequence[CurveRow]) -> tuple[CurveRow, ...]:
    """Mark the rows that are on the frontier of speed and cost by setting ``best``.

    A row is on the frontier if no other row of its group is at least as fast and at most as
    expensive. All wafers form one group, and so do all machines with GPUs of the same type.
    """
    groups: dict[str, list[CurveRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    best = {id(row) for group in groups.values() for row in frontier(group)}
    return tuple(replace(row, best=True) if id(row) in best else row for row in rows)


def group_of(row: CurveRow) -> str:
    """Return the name of the row's group. The best rows are marked within each group.

    All wafers form one group, because they are alternatives to each other. So do all machines with
    GPUs of the same type.
    """
    return row.kind if row.kind == WAFER else row.name


def frontier(rows: Iterable[CurveRow]) -> list[CurveRow]:
    """Return the rows that no other row beats in speed and cost, fastest first.

    A row is left out if another row is at least as fast and at most as expensive.
    """
    best: list[CurveRow] = []
    for row in sorted(rows, key=lambda row: (-row.tokens_per_s_per_user, row.usd_per_million_tokens)):
        if not best or row.usd_per_million_tokens < best[-1].usd_per_million_tokens:
            best.append(row)
    return best
