"""CurveRow: what some users at the same time get on one machine, and what a token of theirs costs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final

from wse.report.result import Doc, Result

WAFER, GPU = "wafer", "gpu"
"""Kinds of machines."""
PLAIN, FAST = "plain", "fast"
"""Tiers: as many users as fit; and as many as leave each of them so many times the speed."""
FAST_TIMES: Final = 2.5
"""The speed of the fast tier over that of the plain one, as a service that sells both has it."""


@dataclass(frozen=True, kw_only=True)
class CurveRow(Result):
    """Users of one machine at the same time. ``joules_per_token`` and dollars are those of all its tokens."""

    machine: Annotated[str, Doc("the machine, in words")]
    kind: Annotated[str, Doc("`wafer` or `gpu`")]
    name: Annotated[str, Doc("name of the wafer or GPU")]
    chips: Annotated[int, Doc("wafers or GPUs")]
    software: Annotated[str, Doc("mapping on wafers, serving stack on GPUs")]
    users: Annotated[int, Doc("users at the same time; on wafers those of all streams in flight")]
    tokens_per_s_per_user: Annotated[
        float, Doc("of a user while it decodes, prompts of the others read meanwhile", "1/s")
    ]
    tokens_per_s: Annotated[float, Doc("generated tokens of all users", "1/s")]
    exact: Annotated[bool, Doc("false where the speed is an upper bound")]
    usd_per_million_tokens: Annotated[float, Doc("dollars of a million generated tokens", "USD")]
    usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    joules_per_token: Annotated[float, Doc("joules of a generated token at the power of the whole system", "J")]
    joules_per_token_low: Annotated[float, Doc("the same at the low end of the power's range", "J")]
    joules_per_token_high: Annotated[float, Doc("the same at the high end of the power's range", "J")]
    tier: Annotated[
        str | None, Doc("`plain`: the most users; `fast`: the most that get 2.5 times the speed of the plain tier")
    ] = None
    best: Annotated[
        bool, Doc("whether none of the same kind (wafers together, each GPU by itself) is as fast and cheaper")
    ] = False


COLUMNS: Final = tuple(field.name for field in fields(CurveRow))
"""The columns of CSV files, in their order."""
