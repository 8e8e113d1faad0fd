"""The verdict on wafers and GPUs: two sentences that follow from the rows by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.comparison.compare.curve.frontier import cheaper_from
from wse.comparison.compare.curve.row import GPU, WAFER, CurveRow
from wse.comparison.compare.curve.tables import price
from wse.comparison.compare.verdict import rate
from wse.report.terminal import plural

EQUAL: Final = 0.005
"""Relative difference below which two numbers are told as the same."""
KINDS: Final = {WAFER: "wafers", GPU: "GPUs"}


def curve_verdict(rows: Sequence[CurveRow]) -> tuple[str, str]:
    """Which machine is faster for one user, and which is cheaper by token and up to which speed.

    Args:
        rows: Rows of wafers and of GPUs, at least one of each.
    """
    of_kind = {kind: [row for row in rows if row.kind == kind] for kind in KINDS}
    return _speed(of_kind[WAFER], of_kind[GPU]), _cost(of_kind[WAFER], of_kind[GPU])


def _speed(wafers: Sequence[CurveRow], gpus: Sequence[CurveRow]) -> str:
    """Which is faster for one user, and by how much."""
    fastest = [max(rows, key=lambda row: row.tokens_per_s_per_user) for rows in (wafers, gpus)]
    winner, loser = sorted(fastest, key=lambda row: -row.tokens_per_s_per_user)
    times = winner.tokens_per_s_per_user / loser.tokens_per_s_per_user
    rates = f"{rate(winner.tokens_per_s_per_user)} against {rate(loser.tokens_per_s_per_user)}"
    if times < 1 + EQUAL:
        return f"One user is as fast on {winner.machine} as on {loser.machine}: {rates}."
    return f"One user is {_times(times)} as fast on {winner.machine} as on {loser.machine}: {rates}."


def _cost(wafers: Sequence[CurveRow], gpus: Sequence[CurveRow]) -> str:
    """Which has the cheaper token, from which speed on wafers have it, and from which on they are the only ones."""
    cheapest = [min(rows, key=lambda row: row.usd_per_million_tokens) for rows in (wafers, gpus)]
    winner, loser = sorted(cheapest, key=lambda row: row.usd_per_million_tokens)
    text = (
        f"A token is cheapest on {winner.machine}, {_price(winner)} with {plural(winner.users, 'user')} of "
        f"{rate(winner.tokens_per_s_per_user)}, against {_price(loser)} on {loser.machine}{_overlap(winner, loser)}"
    )
    limits = []
    least = cheaper_from(wafers, gpus)
    most = max(row.tokens_per_s_per_user for row in gpus)
    alone = max(row.tokens_per_s_per_user for row in wafers) > most
    if winner.kind == GPU and least is not None and (least < most or not alone):
        limits.append(f"from {rate(least)} a user on wafers are the cheaper ones{_cautious(wafers, gpus, least, most)}")
    if winner.kind == WAFER and least is not None and least > min(row.tokens_per_s_per_user for row in wafers):
        limits.append("at some speeds between GPUs are")
    limits.append(f"above {rate(most)} a user wafers are the only ones" if alone else "wafers reach no speed alone")
    return f"{text}; {', and '.join(limits)}."


def _cautious(wafers: Sequence[CurveRow], gpus: Sequence[CurveRow], least: float, most: float) -> str:
    """The speed from which on wafers are cheaper even at their highest price and the lowest of GPUs."""
    dear = [replace(row, usd_per_million_tokens=row.usd_per_million_tokens_high) for row in wafers]
    cheap = [replace(row, usd_per_million_tokens=row.usd_per_million_tokens_low) for row in gpus]
    cautious = cheaper_from(dear, cheap)
    if cautious == least:
        return " whatever is known of prices"
    known = "at the prices within what is known that favour GPUs"
    if cautious is None or cautious > most:
        return f" (at no speed of GPUs {known})"
    return f" (from {rate(cautious)} {known})"


def _overlap(winner: CurveRow, loser: CurveRow) -> str:
    """A remark where what is known of prices leaves open which is cheaper."""
    overlap = loser.usd_per_million_tokens_low <= winner.usd_per_million_tokens_high
    return " (within what is known of prices it may be the other way round)" if overlap else ""


def _price(row: CurveRow) -> str:
    return f"{price(row.usd_per_million_tokens)} USD a million"


def _times(times: float) -> str:
    return f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
