"""The verdict on wafers and GPUs: which is faster for one user, and at which speeds which is cheaper."""

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
"""Relative difference below which two numbers count as equal."""


def curve_verdict(machines: Sequence[Machine]) -> tuple[str, ...]:
    """Return which machine is faster for one user, which has the cheapest token, and the speeds at which wafers are.

    Args:
        machines: Wafers and GPUs, at least one of each.
    """
    wafers, gpus = ([one for one in machines if one.kind == kind] for kind in (WAFER, GPU))
    return _speed(wafers, gpus), _cheapest(wafers, gpus), _crossover(wafers, gpus)


def _speed(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return which is faster for one user, and by how much."""
    fastest = [max(group, key=fastest_speed) for group in (wafers, gpus)]
    winner, loser = sorted(fastest, key=lambda machine: -fastest_speed(machine))
    times = fastest_speed(winner) / fastest_speed(loser)
    rates = f"{rate(fastest_speed(winner))} against {rate(fastest_speed(loser))}"
    how = "as fast" if times < 1 + EQUAL else f"{_times(times)} as fast"
    return f"One user is {how} on {winner.text} as on {loser.text}: {rates}."


def _cheapest(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return the cheapest token of wafers and that of GPUs, at whatever speed."""
    pairs = [min(((m, _full(m)) for m in group), key=lambda pair: _usd(pair[1])) for group in (wafers, gpus)]
    (winner, best), (loser, other) = sorted(pairs, key=lambda pair: _usd(pair[1]))
    return (
        f"A token is cheapest on {winner.text}, {_price(best)} with {plural(best.concurrency, 'user')} of "
        f"{rate(best.tokens_per_s_per_user or 0.0)}, against {_price(other)} on {loser.text}{_overlap(best, other)}."
    )


def _crossover(wafers: Sequence[Machine], gpus: Sequence[Machine]) -> str:
    """Return the speeds at which wafers are cheaper: at central prices, and at the ends that favour either side."""
    most = max(fastest_speed(machine) for machine in gpus)
    only = max(fastest_speed(machine) for machine in wafers) > most
    alone = f" Above {rate(most)} per user only wafers are fast enough." if only else ""
    central = _speeds(cheaper_speeds(wafers, gpus), most)
    generous = _speeds(cheaper_speeds(wafers, gpus, ("low", "high")), most)
    cautious = _speeds(cheaper_speeds(wafers, gpus, ("high", "low")), most)
    if central == generous == cautious:
        return f"At all prices within the ranges wafers have the cheaper token {central}.{alone}"
    return (
        f"At central prices wafers have the cheaper token {central}; at the lowest price of wafers and the highest of "
        f"GPUs {generous}; at the highest of wafers and the lowest of GPUs {cautious}.{alone}"
    )


def _speeds(intervals: Sequence[Interval], most: float) -> str:
    """Return intervals of speeds in words; ``most`` is the speed above which GPUs serve nobody."""
    if not intervals:
        return "at no speed"
    texts = []
    for low, high in intervals:
        if low <= 1:
            texts.append("at every speed" if math.isinf(high) else f"up to {rate(high)} per user")
        elif math.isinf(high):
            texts.append("only where GPUs are too slow" if low >= most * (1 - EQUAL) else f"above {rate(low)} per user")
        else:
            texts.append(f"between {rate(low)} and {rate(high)} per user")
    return " and ".join(texts)


def _full(machine: Machine) -> OperatingPoint:
    return machine.point(machine.useful_users)


def _overlap(best: OperatingPoint, other: OperatingPoint) -> str:
    """Return a remark where the ranges of prices leave open which token is cheaper."""
    if best.usd_per_million_tokens is None or other.usd_per_million_tokens is None:
        return ""
    overlaps = other.usd_per_million_tokens.low <= best.usd_per_million_tokens.high
    return " (within the published range of prices it may be the other way round)" if overlaps else ""


def _usd(point: OperatingPoint) -> float:
    return math.inf if point.usd_per_million_tokens is None else point.usd_per_million_tokens.value


def _price(point: OperatingPoint) -> str:
    cost = point.usd_per_million_tokens
    return "" if cost is None else f"{ranged(cost.value, cost.low, cost.high, price, ' USD')} per million"


def _times(times: float) -> str:
    return f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
