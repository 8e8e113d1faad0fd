"""Rows for a machine in a speed and cost comparison: operating points and service tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.reports.intervals import range_of
from wse.serving.plan import users_at_speed
from wse.serving.tiers import FAST_TIMES
from wse.studies.compare.curve.row import FAST, PLAIN, TIER_SEPARATOR, CurveRow
from wse.studies.compare.curve.samples import figures_of
from wse.studies.compare.machine import Machine
from wse.studies.results.operating_points import user_counts


def curve_rows(machine: Machine, samples: Sequence[Machine], plain_tokens_per_s: float) -> tuple[CurveRow, ...]:
    """Return the speed, cost and energy of a machine for various user counts, fewest first.

    The user counts are powers of two up to the maximum useful count: the number of users that
    saturates the machine, or the number that fits if it is smaller. Two counts are added for the
    service tiers: the maximum number of users at the plain speed, and the maximum number at
    `FAST_TIMES` the plain speed.

    Args:
        machine: The machine, which must have room for at least one user.
        samples: Copies of the machine, one for each random sample of the uncertain constants. The
            90 % intervals of the rows are computed from them.
        plain_tokens_per_s: Plain speed in tokens/s per user.
    """
    users = machine.useful_users
    speeds = {PLAIN: plain_tokens_per_s, FAST: FAST_TIMES * plain_tokens_per_s}
    tiers = {tier: users_at_speed(machine.point, users, speed) for tier, speed in speeds.items()}
    counts = sorted({*user_counts(users, users), *(count for count in tiers.values() if count)})
    names = {count: TIER_SEPARATOR.join(tier for tier, users in tiers.items() if users == count) for count in counts}
    return tuple(curve_row(machine, samples, count, names[count] or None) for count in counts)


def curve_row(machine: Machine, samples: Sequence[Machine], users: int, tier: str | None = None) -> CurveRow:
    """Return a row with a machine's speed, cost and energy when it serves ``users`` users.

    Args:
        machine: The machine. Its price and power must be known.
        samples: Copies of the machine, one for each random sample of the uncertain constants. The
            90 % intervals of the row are computed from them.
        users: Number of concurrent users.
        tier: ``plain``, ``fast`` or both if a service tier has this number of users; otherwise
            None.
    """
    point = machine.point(users)
    cost, energy = point.usd_per_million_tokens, point.joules_per_token
    assert cost is not None  # machines of a comparison have prices
    assert energy is not None
    row = CurveRow(
        machine=machine.text,
        kind=machine.kind,
        name=machine.name,
        chips=machine.deployment.chips,
        software=machine.software,
        dtype=machine.dtype,
        users=users,
        ttft_s=point.ttft_s,
        tokens_per_s_per_user=point.tokens_per_s_per_user or 0.0,
        tokens_per_s=point.tokens_per_s,
        usd_per_million_tokens=cost.value,
        usd_per_million_tokens_low=cost.low,
        usd_per_million_tokens_high=cost.high,
        joules_per_token=energy.value,
        joules_per_token_low=energy.low,
        joules_per_token_high=energy.high,
        tier=tier,
    )
    ranges = {name: range_of(getattr(row, name), sampled) for name, sampled in figures_of(samples, users).items()}
    return replace(row, ranges=ranges)
