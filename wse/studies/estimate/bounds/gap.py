"""Cycles and lower bounds of a token or a group of steps, and ``bounds.gap`` of an estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from wse.hardware.number import Grade
from wse.reports.number_text import percent, short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.studies.results.phases import Cause, CyclesBy

BoundName = Literal["sram", "arithmetic", "hops", "crossing"]
"""Names of the lower bounds that no software on a placement can beat, in JSON order.

They are computed by `wse.backends.fabric.bounds`.
"""


class BoundRow(Result):
    """Cycles and lower bounds for a group of steps of a decoded token, averaged over all tokens.

    The bounds are the minimum cycles that any software with the same placement needs. Ops that
    neither multiply nor send have no bound. In their rows, ``limit``, ``ratio``, ``bound_grade``
    and ``bound_source`` are None.
    """

    op: Annotated[str | None, Doc("kind of op; of the rows of `ops`")] = None
    layers: Annotated[str | None, Doc("kind of layer; of the rows of `layers`")] = None
    stage: Annotated[int | None, Doc("index of the stage; of the rows of `stages`")] = None
    cycles: Annotated[float, Doc("cycles of these steps", "cycles")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles by cause", "cycles")]
    bounds: Annotated[Mapping[BoundName, float], Doc("cycles that no software on this placement can beat", "cycles")]
    source: Annotated[str, Doc("the weakest kind of source among the constants: measured, vendor, fitted, assumed")]
    sources: Annotated[Mapping[str, float], Doc("fraction of the cycles that rests on each kind of source")]
    limit: Annotated[BoundName | None, Doc("the largest of the bounds")] = None
    ratio: Annotated[float | None, Doc("the cycles over that bound")] = None
    bound_grade: Annotated[Grade | None, Doc("grade of the weakest constant of that bound")] = None
    bound_source: Annotated[str | None, Doc("kind of source of that constant: measured, vendor, fitted or assumed")] = (
        None
    )
    count: Annotated[int | None, Doc("ops or layers of this kind")] = None
    wafer: Annotated[int | None, Doc("index of the stage's wafer")] = None


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
