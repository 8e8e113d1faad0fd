"""``bounds.gap`` of a result: what separates a generated token from its bound, cause by cause, the largest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import percent, short_number
from wse.studies.estimate.bounds.bound_row import BoundName, BoundRow
from wse.studies.results.phases import Cause

BOUNDED: Final[Mapping[BoundName, Cause]] = {
    "sram": "compute",
    "arithmetic": "compute",
    "hops": "hops",
    "crossing": "crossing",
}
"""The cause of cycles that a bound is a lower bound of."""

REASONS: Final[Mapping[Cause, str]] = {
    "hops": "words behind the first of a message, ways that turn back",
    "relays": "PEs that add and pass on in code",
    "compute": "multiply-adds and vector operations, one after another",
    "launch": "starts of steps and messages that wait for the last",
    "crossing": "streams between wafers beyond latency and bytes",
    "host": "the host's share of a token",
}
"""Descriptions of the cycles beyond the bound, by cause."""

OPS: Final = 3
"""Kinds of op that are named beside a cause."""
LEAST: Final = 0.05
"""Share of a cause's cycles from which a kind of op is named."""


@dataclass(frozen=True, kw_only=True)
class GapRow(Result):
    """Cycles of one cause that a mean decoded token takes beyond its bound; those of all causes are the whole gap."""

    cause: Annotated[Cause, Doc("the cause of the cycles")]
    cycles: Annotated[float, Doc("beyond the bound", "cycles")]
    share: Annotated[float, Doc("of all cycles beyond the bound")]
    ratio_without: Annotated[float, Doc("the token's cycles over its bound with none of these")]
    ops: Annotated[Mapping[str, float], Doc("the kinds of op with most of them, and their share of the cause's cycles")]
    reason: Annotated[str, Doc("what they are")]


def gap_rows(token: BoundRow, ops: Sequence[BoundRow]) -> tuple[GapRow, ...]:
    """Return the gap between a token's cycles and its largest bound, by cause, the largest first; none without a bound.

    The bound is one of cycles of a single cause (`BOUNDED`): of that one its cycles above the bound count, of the
    others all, so that the rows add up to ``token.cycles`` less the bound. ``ops`` are the rows by kind of op.
    """
    if token.limit is None:
        return ()
    bound = token.bounds[token.limit]
    beyond: dict[Cause, float] = {
        cause: cycles - (bound if cause == BOUNDED[token.limit] else 0) for cause, cycles in token.cycles_by.items()
    }
    whole = token.cycles - bound
    rows = (
        GapRow(
            cause=cause,
            cycles=cycles,
            share=cycles / whole,
            ratio_without=(token.cycles - cycles) / bound,
            ops=_largest(token, ops, cause),
            reason=REASONS[cause],
        )
        for cause, cycles in beyond.items()
        if cycles > 0
    )
    return tuple(sorted(rows, key=lambda row: -row.cycles))


def _largest(token: BoundRow, ops: Sequence[BoundRow], cause: Cause) -> dict[str, float]:
    """The kinds of op with most cycles of a cause beyond their share of the token's bound, as shares of all such."""
    beyond = {row.op or "": _beyond(token, row, cause) for row in ops}
    whole = sum(beyond.values())
    largest = sorted(beyond, key=lambda op: -beyond[op])[:OPS]
    return {op: beyond[op] / whole for op in largest if whole and beyond[op] / whole >= LEAST}


def _beyond(token: BoundRow, row: BoundRow, cause: Cause) -> float:
    """Return the cycles of a cause that a kind of op takes beyond what it has of the token's bound."""
    assert token.limit is not None
    bound = row.bounds[token.limit] if cause == BOUNDED[token.limit] else 0
    return max(row.cycles_by[cause] - bound, 0)


def gap_table(token: BoundRow, gap: Sequence[GapRow]) -> Table:
    """Return what separates the token from its bound, the largest first."""
    columns = (
        Column(key="cause", title="cause"),
        number("cycles", "cycles", short_number),
        number("share", "of the gap", percent),
        number("ratio_without", "ratio without", lambda ratio: f"{ratio:.2f}"),
        Column(key="ops", title="most in", cell=_ops, wraps=True, priority=1),
        Column(key="reason", title="what they are", wraps=True, priority=2),
    )
    return Table(columns=columns, rows=tuple(gap), title=f"What separates it from its bound  {token.ratio:.2f} times")


def _ops(row: GapRow) -> str:
    return ", ".join(f"{op.replace('_', ' ')} {percent(share)}" for op, share in row.ops.items())
