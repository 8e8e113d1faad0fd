"""Verdict on wafers and GPUs: which is faster for one user, and which is cheaper at what speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from wse.reports.terminal import plural, ranged
from wse.serving.operating_point import OperatingPoint
from wse.studies.compare.curve.crossover import Interval, cheaper_speeds, fastest_speed
from wse.studies.compare.curve.tables import price
from wse.studies.compare.grid.verdict import rate
from wse.studies.compare.machine import GPU, WAFER, Machine

EQUAL: Final = 0.005
"""Relative difference below which two numbers are considered equal."""


def curve_verdict(machines: Sequence[Machine]) -> tuple[str, ...]:
    """Return three sentences that compare wafers with GPUs.

    They state which machine is faster for a single user, which machine has the cheapest token, and
    at which speeds per user tokens are cheaper on wafers.

    Args:
        machines: Wafer and GPU machines, at least one of each.
    """
    wafers, gpus = ([machine for machine in machines if machine.kind == kind] for kind in (WAFER, GPU))
    return _speed(wafers, gpus), _cheapest(wafers, gpus), _crossover(wafers, gpus)


def _speed(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return a sentence that states which machine is faster for one user, and by what factor."""
    fastest_machines = [max(group, key=fastest_speed) for group in (wafers, gpus)]
    winner, loser = sorted(fastest_machines, key=lambda machine: -fastest_speed(machine))
    times = fastest_speed(winner) / fastest_speed(loser)
    rates = f"{rate(fastest_speed(winner))} against {rate(fastest_speed(loser))}"
    comparison = "as fast" if times < 1 + EQUAL else f"{_times(times)} as fast"
    return f"One user is {comparison} on {winner.text} as on {loser.text}: {rates}."


def _cheapest(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return a sentence about the cheapest token on wafers and on GPUs, at any speed."""
    pairs = [min(((m, _full(m)) for m in group), key=lambda pair: _usd(pair[1])) for group in (wafers, gpus)]
    (winner, winner_point), (loser, loser_point) = sorted(pairs, key=lambda pair: _usd(pair[1]))
    return (
        f"Of the numbers of wafers and GPUs compared, a token is cheapest on {winner.text}, "
        f"{_price(winner_point)} with "
        f"{plural(winner_point.concurrency, 'user')} of {rate(winner_point.tokens_per_s_per_user or 0.0)}, "
        f"against {_price(loser_point)} on {loser.text}{_overlap(winner_point, loser_point)}."
    )


def _crossover(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return a sentence about the speeds per user at which wafers have the cheaper token.

    Speeds are stated for central prices, for the lowest wafer price with the highest GPU price, and
    for the highest wafer price with the lowest GPU price.
    """
    fastest_gpu_speed = max(fastest_speed(machine) for machine in gpus)
    wafers_are_faster = max(fastest_speed(machine) for machine in wafers) > fastest_gpu_speed
    wafers_only_text = (
        f" Above {rate(fastest_gpu_speed)} per user only wafers are fast enough." if wafers_are_faster else ""
    )
    central = _speeds(cheaper_speeds(wafers, gpus), fastest_gpu_speed)
    generous = _speeds(cheaper_speeds(wafers, gpus, ("low", "high")), fastest_gpu_speed)
    cautious = _speeds(cheaper_speeds(wafers, gpus, ("high", "low")), fastest_gpu_speed)
    users_text = "With the users that each machine serves at a speed"
    if central == generous == cautious:
        return f"{users_text}, wafers have the cheaper token {central}, {_prices_text(wafers, gpus)}.{wafers_only_text}"
    return (
        f"{users_text}, at central prices wafers have the cheaper token {central}; at the lowest price of wafers and "
        f"the highest of GPUs {generous}; at the highest of wafers and the lowest of GPUs {cautious}."
        f"{wafers_only_text}"
    )


def _prices_text(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return "at all prices within the ranges", or a phrase for prices without ranges."""
    costs = [_full(machine).usd_per_million_tokens for machine in (*wafers, *gpus)]
    has_ranges = any(cost is not None and cost.low < cost.high for cost in costs)
    return "at all prices within the ranges" if has_ranges else "at the given prices"


def _speeds(intervals: Sequence[Interval], fastest_gpu_speed: float) -> str:
    """Return a phrase for the speeds at which wafers are cheaper, such as "above 500 per user".

    Args:
        intervals: Ranges of speed in which wafers are cheaper, slowest first.
        fastest_gpu_speed: Highest speed that GPUs reach, in tokens/s per user.
    """
    if not intervals:
        return "at no speed"
    texts = []
    for low, high in intervals:
        if low <= 1:
            texts.append("at every speed" if math.isinf(high) else f"up to {rate(high)} per user")
        elif math.isinf(high):
            texts.append(
                "only where GPUs are too slow"
                if low >= fastest_gpu_speed * (1 - EQUAL)
                else f"above {rate(low)} per user"
            )
        else:
            texts.append(f"between {rate(low)} and {rate(high)} per user")
    return " and ".join(texts)


def _full(machine: Machine) -> OperatingPoint:
    """Return the speed and cost of a machine with its maximum useful number of users.

    More users would not raise the throughput, or their KV caches would not fit.
    """
    return machine.point(machine.useful_users)


def _overlap(best: OperatingPoint, other_point: OperatingPoint) -> str:
    """Return a remark if two machines' cost ranges overlap, so that either could be cheaper."""
    if best.usd_per_million_tokens is None or other_point.usd_per_million_tokens is None:
        return ""
    overlaps = other_point.usd_per_million_tokens.low <= best.usd_per_million_tokens.high
    return " (within the published range of prices, the order may be reversed)" if overlaps else ""


def _usd(point: OperatingPoint) -> float:
    """Return the cost per million tokens in USD; infinite if the price is unknown."""
    return math.inf if point.usd_per_million_tokens is None else point.usd_per_million_tokens.value


def _price(point: OperatingPoint) -> str:
    """Format the cost per million tokens with its range; empty if the price is unknown."""
    cost = point.usd_per_million_tokens
    return "" if cost is None else f"{ranged(cost.value, cost.low, cost.high, price, ' USD')} per million"


def _times(times: float) -> str:
    """Format a factor, such as "2.5 times" or "12 times"."""
    return f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
