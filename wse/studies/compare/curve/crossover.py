"""Crossovers: speeds per user at which the cheaper of two groups of machines changes.

At a given speed, each machine serves the maximum number of users that all get this speed. The
lowest cost of a group is that of its cheapest machine. The prices of two groups are compared on
a fine grid of speeds. If the cheaper group changes between two grid speeds, bisection finds the
speed at which it changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from wse.serving.plan import users_at_speed
from wse.studies.compare.machine import Machine

SPEEDS: Final = 64
"""Number of grid speeds, geometrically spaced from the slowest to the fastest."""
HALVINGS: Final = 20
"""Number of bisection steps."""
SLOWEST: Final = 1.0
"""Slowest grid speed, in tokens/s per user."""


class Interval(NamedTuple):
    """Range of speeds (tokens/s per user) in which tokens are cheaper on one group of machines."""

    from_speed: float
    to_speed: float


def cheapest_token(machines: Sequence[Machine], tokens_per_s: float) -> float:
    """Return the cost per million tokens on the cheapest machine that is fast enough.

    Each machine serves as many users as it can while every user gets the required speed.

    Args:
        machines: The machines to choose from.
        tokens_per_s: Required speed in tokens/s per user.

    Returns:
        The cost in USD; infinite if no machine reaches this speed even for one user.
    """
    prices = []
    for machine in machines:
        users = users_at_speed(machine.point, machine.useful_users, tokens_per_s)
        cost = machine.point(users).usd_per_million_tokens if users else None
        if cost is not None:
            prices.append(cost.value)
    return min(prices, default=math.inf)


def cheaper_speeds(machines: Sequence[Machine], other_machines: Sequence[Machine]) -> tuple[Interval, ...]:
    """Return the ranges of speed in which tokens are cheaper on the first group of machines.

    1. Determine which group is cheaper at `SPEEDS` geometrically spaced speeds.
    2. Where the cheaper group changes between two adjacent speeds, find the change by bisection.

    Args:
        machines: Machines of the first group.
        other_machines: Machines of the second group.

    Returns:
        Intervals of tokens/s per user, slowest first. The last interval may be unbounded.
    """

    def is_cheaper(speed: float) -> bool:
        """Return whether the first group of machines is the cheaper one at this speed per user."""
        return cheapest_token(machines, speed) < cheapest_token(other_machines, speed)

    fastest_of_all = max(fastest_speed(machine) for machine in (*machines, *other_machines))
    low = min(SLOWEST, fastest_of_all / 2)
    speeds = [low * (fastest_of_all / low) ** (step / (SPEEDS - 1)) for step in range(SPEEDS)]
    speeds[-1] = fastest_of_all
    cheaper = [is_cheaper(speed) for speed in speeds]
    intervals: list[Interval] = []
    start = speeds[0] if cheaper[0] else None
    for speed, next_speed, was_cheaper, is_next_cheaper in zip(speeds, speeds[1:], cheaper, cheaper[1:], strict=False):
        if was_cheaper == is_next_cheaper:
            continue
        change = _change(is_cheaper, speed, next_speed, holds_below=was_cheaper)
        if is_next_cheaper:
            start = change
        else:
            intervals.append(Interval(start or low, change))
            start = None
    return (*intervals, *([Interval(start, math.inf)] if start is not None else []))


def fastest_speed(machine: Machine) -> float:
    """Return a single user's speed on a machine in tokens/s."""
    return machine.point(1).tokens_per_s_per_user or 0.0


def _change(holds: Callable[[float], bool], low: float, high: float, *, holds_below: bool) -> float:
    """Use bisection to find the speed at which a condition becomes true or false.

    Args:
        holds: Function that tests the condition at a speed.
        low: Speed below the change.
        high: Speed above the change.
        holds_below: Whether the condition is true at ``low``.
    """
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) == holds_below else (low, middle)
    return high
