"""Certainty of a verdict on wafers and GPUs: the fraction of the samples in which it holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

import numpy as np

from wse.reports.intervals import RangeResult, range_of, share_above
from wse.reports.result import Doc, Result
from wse.studies.compare.curve.crossover import SLOWEST, Interval, cheaper_speeds, fastest_speed
from wse.studies.compare.curve.samples import SampledMachines, figures_of
from wse.studies.compare.machine import GPU, WAFER, Machine

EQUAL: Final = 0.005
"""Relative difference below which two numbers are considered equal."""

Crossover = Literal["always", "never", "above", "alone", "other"]
"""At which speeds tokens are cheaper on wafers than on GPUs.

``always`` and ``never`` mean at every speed and at no speed. With ``above``, GPUs are cheaper at
low speeds, and wafers above a speed that GPUs reach as well. With ``alone``, wafers are cheaper
only where GPUs are too slow. All other cases are ``other``.
"""


class CurveCertainty(Result):
    """Certainty of a verdict on wafers and GPUs, from random samples of the uncertain constants.

    Each fraction is the number of samples in which a statement of the verdict is true, divided by
    the number of all samples. The same machines are compared in all samples.
    """

    faster: Annotated[float, Doc("fraction of the samples in which the faster machine for one user is faster")]
    cheaper: Annotated[float, Doc("fraction of the samples in which the machine with the cheapest token is cheaper")]
    crossover: Annotated[
        Crossover, Doc("speeds at which wafers are cheaper: `always`, `never`, `above` a speed, `alone` or `other`")
    ]
    crossovers: Annotated[Mapping[str, float], Doc("fraction of the samples with each of these cases")]
    tokens_per_s: Annotated[
        RangeResult | None, Doc("speed above which wafers are cheaper, of the samples with `above`", "1/s")
    ] = None
    samples: Annotated[int, Doc("number of samples of prices, constants and model errors")]


def certainty_of(samples: SampledMachines, best_machines: Sequence[Machine]) -> CurveCertainty:
    """Return the fraction of samples in which each statement of the verdict is true.

    1. Compare the fastest wafers with the fastest GPUs, for one user.
    2. Compare the wafers and the GPUs with the lowest cost per token, each with its maximum useful
       number of users.
    3. In each sample, determine the speeds at which tokens are cheaper on wafers.

    Args:
        samples: For each machine, a copy for each random sample of the uncertain constants.
        best_machines: Machines with the lowest cost per token at some speed, at least one of wafers
            and of GPUs. Only these are compared in step 3.
    """
    # 1. One user.
    speeds = [figures_of(samples[machine], 1)["tokens_per_s_per_user"] for machine in fastest_of_kinds(samples)]
    # 2. Cheapest token.
    costs = [
        figures_of(samples[machine], machine.useful_users)["usd_per_million_tokens"]
        for machine in cheapest_of_kinds(samples)
    ]
    # 3. Crossover.
    wafers, gpus = ([machine for machine in best_machines if machine.kind == kind] for kind in (WAFER, GPU))
    cases, lows = [], []
    for number in range(len(costs[0])):
        sampled_wafers, sampled_gpus = ([samples[machine][number] for machine in group] for group in (wafers, gpus))
        intervals = cheaper_speeds(sampled_wafers, sampled_gpus)
        cases.append(crossover_of(intervals, max(map(fastest_speed, sampled_gpus))))
        if cases[-1] == "above":
            lows.append(intervals[0].from_speed)
    stated_intervals = cheaper_speeds(wafers, gpus)
    crossover = crossover_of(stated_intervals, max(map(fastest_speed, gpus)))
    has_interval = crossover == "above" and lows
    return CurveCertainty(
        faster=share_above(speeds[0], speeds[1]),
        cheaper=share_above(costs[1], costs[0]),
        crossover=crossover,
        crossovers={case: count / len(cases) for case, count in Counter(cases).most_common()},
        tokens_per_s=range_of(stated_intervals[0].from_speed, np.array(lows)) if has_interval else None,
        samples=len(cases),
    )


def crossover_of(intervals: Sequence[Interval], fastest_gpu_speed: float) -> Crossover:
    """Classify the speeds at which tokens are cheaper on wafers than on GPUs.

    Args:
        intervals: Ranges of speed in which wafers are cheaper, slowest first.
        fastest_gpu_speed: Highest speed that GPUs reach, in tokens/s per user.

    Returns:
        ``never``, ``always``, ``above`` (above some speed), ``alone`` (only at speeds that GPUs do
        not reach) or ``other``.
    """
    if not intervals:
        return "never"
    low, high = intervals[0]
    if len(intervals) > 1 or not math.isinf(high):
        return "other"
    if low <= SLOWEST:
        return "always"
    return "alone" if low >= fastest_gpu_speed * (1 - EQUAL) else "above"


def fastest_of_kinds(machines: Iterable[Machine]) -> list[Machine]:
    """Return the wafers and the GPUs that are fastest for one user, the faster of the two first.

    Of machines of one kind that are equally fast (`EQUAL`), the first one is returned. Of the
    layouts of one mapping, those that were chosen for one user come first.
    """
    groups = ([machine for machine in machines if machine.kind == kind] for kind in (WAFER, GPU))
    return sorted(map(_first_fastest, groups), key=fastest_speed, reverse=True)


def _first_fastest(machines: Sequence[Machine]) -> Machine:
    """Return the first machine whose speed for one user is (nearly) the highest."""
    highest_speed = max(map(fastest_speed, machines))
    return next(machine for machine in machines if fastest_speed(machine) * (1 + EQUAL) >= highest_speed)


def cheapest_of_kinds(machines: Iterable[Machine]) -> list[Machine]:
    """Return the wafers and the GPUs with the lowest cost per token, the cheaper of the two first."""
    groups = ([machine for machine in machines if machine.kind == kind] for kind in (WAFER, GPU))
    return sorted((min(group, key=full_cost) for group in groups), key=full_cost)


def full_cost(machine: Machine) -> float:
    """Return the cost per million tokens with the maximum useful number of users, in USD.

    The cost is infinite if the price is unknown.
    """
    cost = machine.point(machine.useful_users).usd_per_million_tokens
    return math.inf if cost is None else cost.value
