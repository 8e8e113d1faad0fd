"""``bounds.gap`` of an estimate: the gap between a token's cycles and its bound, by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import percent, short_number
from wse.studies.estimate.bounds.bound_row import BoundName
from wse.studies.results.phases import Cause

if TYPE_CHECKING:
    from wse.studies.estimate.bounds.bound_row import BoundRow

BOUNDED: Final[Mapping[BoundName, Cause]] = {
    "sram": "compute",
    "arithmetic": "compute",
    "hops": "hops",
    "crossing": "crossing",
}
"""For each bound, the cause of cycles that it limits."""

REASONS: Final[Mapping[Cause, str]] = {
    "hops": "words after the first of a message, paths that turn back",
    "relays": "PEs that add or forward words in code",
    "compute": "multiply-adds and vector operations, one after another",
    "launch": "starts of steps and messages that wait for the last",
    "crossing": "streams between wafers beyond latency and bytes",
    "host": "waiting for the host",
}
"""Explanations of the cycles above the bound, by cause."""

OPS: Final = 3
"""Maximum number of op kinds to list for a cause."""
LEAST: Final = 0.05
"""Minimum fraction of a cause's cycles for an op kind to be listed."""


@dataclass(frozen=True, kw_only=True)
class GapRow(Result):
    """Cycles that one cause, such as hops, adds to the gap between a token and its lower bound.

    The rows of all causes add up to the whole gap, averaged over all decoded tokens.
    """

    cause: Annotated[Cause, Doc("the cause of the cycles")]
    cycles: Annotated[float, Doc("cycles above the bound", "cycles")]
    share: Annotated[float, Doc("fraction of all cycles above the bound")]
    ratio_without: Annotated[float, Doc("the token's cycles without those of this cause, over its bound")]
    ops: Annotated[Mapping[str, float], Doc("the kinds of op with most of these cycles, and their fraction of them")]
    reason: Annotated[str, Doc("explanation of these cycles")]


def gap_rows(token: BoundRow, ops: Sequence[BoundRow]) -> tuple[GapRow, ...]:
    """Return the cycles by which a decoded token exceeds its largest lower bound, by cause.

    A lower bound is the minimum time for one kind of work, such as hops. It is subtracted from the
    cycles whose cause is this work (`BOUNDED`). The cycles of all other causes count in full. All
    rows together therefore add up to ``token.cycles`` minus the bound.

    Args:
        token: Row for the whole token.
        ops: One row for each op kind.

    Returns:
        The rows, most cycles first; empty if the token has no bound.
    """
    if token.limit is None:
        return ()
    bound = token.bounds[token.limit]
    excess_cycles: dict[Cause, float] = {
        cause: cycles - (bound if cause == BOUNDED[token.limit] else 0) for cause, cycles in token.cycles_by.items()
    }
    gap_cycles = token.cycles - bound
    rows = (
        GapRow(
            cause=cause,
            cycles=cycles,
            share=cycles / gap_cycles,
            ratio_without=(token.cycles - cycles) / bound,
            ops=_largest_ops(token, ops, cause),
            reason=REASONS[cause],
        )
        for cause, cycles in excess_cycles.items()
        if cycles > 0
    )
    return tuple(sorted(rows, key=lambda row: -row.cycles))


def _largest_ops(token: BoundRow, ops: Sequence[BoundRow], cause: Cause) -> dict[str, float]:
    """Return the op kinds with most of the cycles above the lower bound that have a certain cause.

    Args:
        token: Row for the whole token, whose largest bound is the lower bound.
        ops: One row for each op kind.
        cause: The cause, such as hops.

    Returns:
        For each op kind, its fraction of these cycles, largest first. There are at most `OPS`
        entries, each with a fraction of at least `LEAST`.
    """
    excess_cycles = {row.op or "": _excess_cycles(token, row, cause) for row in ops}
    total_cycles = sum(excess_cycles.values())
    largest_ops = sorted(excess_cycles, key=lambda op: -excess_cycles[op])[:OPS]
    return {
        op: excess_cycles[op] / total_cycles
        for op in largest_ops
        if total_cycles and excess_cycles[op] / total_cycles >= LEAST
    }


def _excess_cycles(token: BoundRow, row: BoundRow, cause: Cause) -> float:
    """Return an op kind's cycles with a certain cause, minus the lower bound for this cause.

    The bound is 0 unless ``cause`` is the cause to which the token's largest bound applies
    (`BOUNDED`).

    Args:
        token: Row for the whole token.
        row: Row for the op kind, with its cycles and its bounds.
        cause: Cause of the cycles, such as hops.
    """
    assert token.limit is not None
    bound = row.bounds[token.limit] if cause == BOUNDED[token.limit] else 0
    return max(row.cycles_by[cause] - bound, 0)


def gap_table(token: BoundRow, gap: Sequence[GapRow]) -> Table:
    """Return a table of the cycles by which a token exceeds its largest lower bound.

    Args:
        token: Row for the whole token, which states the bound.
        gap: Excess cycles due to each cause. Each cause becomes a row of the table.
    """
    columns = (
        Column(key="cause", title="cause"),
        number("cycles", "cycles", short_number),
        number("share", "of the gap", percent),
        number("ratio_without", "ratio without", lambda ratio: f"{ratio:.2f}"),
        Column(key="ops", title="most in", cell=_ops, wraps=True, priority=1),
        Column(key="reason", title="explanation", wraps=True, priority=2),
    )
    note = f"a token takes {token.ratio:.2f} times its bound"
    return Table(columns=columns, rows=tuple(gap), title="Cycles above the bound", note=note)


def _ops(row: GapRow) -> str:
    """Format the op kinds that account for most of a row's cycles, with percentages."""
    return ", ".join(f"{op.replace('_', ' ')} {percent(share)}" for op, share in row.ops.items())
