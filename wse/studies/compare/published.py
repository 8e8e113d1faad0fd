"""Published speeds for the rows of a comparison of wafers and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from wse.models.spec import ModelSpec
from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.machine import GPU
from wse.studies.compare.plan.result import PlannedRow
from wse.studies.results.published import EstimatedSpeed, PublishedSpeed, published_speeds


def published_of_rows(spec: ModelSpec, rows: Sequence[CurveRow | PlannedRow]) -> tuple[PublishedSpeed, ...] | None:
    """Return published speeds of the model on the wafer and on the GPUs, for comparison.

    Each published speed is compared with the fastest row on its wafer, or on its number of GPUs (if
    not stated, the fewest that were compared). Of the rows of one machine, that is the row with the
    fewest users, because adding users never makes any user faster. Returns None if there are no
    published speeds.

    Args:
        spec: The model.
        rows: Rows of the comparison. Those of a ranking must have one user per replica.
    """
    fastest_rows: dict[tuple[str, int | None], CurveRow | PlannedRow] = {}
    for row in sorted(rows, key=lambda row: (_users(row), -(row.tokens_per_s_per_user or 0.0))):
        fastest_rows.setdefault((row.name, row.chips if row.kind == GPU else None), row)
    estimated = (
        EstimatedSpeed(
            machine=row.name,
            chips=row.chips,
            same_chips_only=row.kind == GPU,
            users=_users(row),
            dtype=row.dtype,
            tokens_per_s_per_user=row.tokens_per_s_per_user or 0.0,
        )
        for row in sorted(fastest_rows.values(), key=lambda row: row.chips)
    )
    speeds = [speed for machine in estimated for speed in published_speeds(spec, machine) or ()]
    distinct_speeds: dict[tuple[str, float, str | None], PublishedSpeed] = {}
    for speed in speeds:
        distinct_speeds.setdefault((speed.source, speed.tokens_per_s_per_user, speed.drafts), speed)
    return tuple(distinct_speeds.values()) or None


def _users(row: CurveRow | PlannedRow) -> int:
    """Return the users of the machine, or of each replica of a ranked machine."""
    return row.users // row.replicas if isinstance(row, PlannedRow) else row.users
