"""Crossovers: speeds at which the cheapest token changes from GPUs to wafers or back, found by solving for them.

At each speed, every machine of a group serves the most users to whom it gives this speed, and the cheapest token of
the group is that of its cheapest machine. The prices of two groups are compared on a fine grid of speeds. Where the
cheaper group changes between two speeds of the grid, bisection finds the speed of the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from wse.serving.plan import users_at_speed
from wse.studies.compare.machine import Machine

SPEEDS: Final = 64
"""Speeds of the grid, at equal ratios from the slowest to the fastest."""
HALVINGS: Final = 20
SLOWEST: Final = 1.0
"""Tokens/s per user below which nobody compares machines."""

End = Literal["low", "value", "high"]


class Interval(NamedTuple):
    """Speeds, in tokens/s per user, at which a group of machines has the cheaper token."""

    from_speed: float
    to_speed: float


def cheapest_token(machines: Sequence[Machine], tokens_per_s: float, end: End = "value") -> float:
    """Return the price of a million tokens where users get a speed; infinite where no machine gives it to one user.

    Args:
        machines: The machines to choose from.
        tokens_per_s: Tokens/s of each user, at least.
        end: The low end of prices, the central value, or the high end.
    """
    prices = []
    for machine in machines:
        users = users_at_speed(machine.point, machine.useful_users, tokens_per_s)
        cost = machine.point(users).usd_per_million_tokens if users else None
        if cost is not None:
            prices.append(getattr(cost, end))
    return min(prices, default=math.inf)


def cheaper_speeds(
    machines: Sequence[Machine], others: Sequence[Machine], ends: tuple[End, End] = ("value", "value")
) -> tuple[Interval, ...]:
    """Return the speeds at which the first machines have the cheaper token, the slowest first.

    Args:
        machines: Machines of one group.
        others: Machines of the other group.
        ends: Ends of the prices of the first and of the second group.
    """

    def is_cheaper(speed: float) -> bool:
        return cheapest_token(machines, speed, ends[0]) < cheapest_token(others, speed, ends[1])

    fastest = max(fastest_speed(machine) for machine in (*machines, *others))
    low = min(SLOWEST, fastest / 2)
    speeds = [low * (fastest / low) ** (step / (SPEEDS - 1)) for step in range(SPEEDS)]
    speeds[-1] = fastest
    cheaper = [is_cheaper(speed) for speed in speeds]
    intervals: list[Interval] = []
    start = speeds[0] if cheaper[0] else None
    for below, above, was, now in zip(speeds, speeds[1:], cheaper, cheaper[1:], strict=False):
        if was == now:
            continue
        change = _change(is_cheaper, below, above, holds_below=was)
        if now:
            start = change
        else:
            intervals.append(Interval(start or low, change))
            start = None
    return (*intervals, *([Interval(start, math.inf)] if start is not None else []))


def fastest_speed(machine: Machine) -> float:
    """Return the tokens/s of a user who is alone on a machine."""
    return machine.point(1).tokens_per_s_per_user or 0.0


def _change(holds: Callable[[float], bool], low: float, high: float, *, holds_below: bool) -> float:
    """Return the speed between two at which a condition changes."""
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) == holds_below else (low, middle)
    return high
