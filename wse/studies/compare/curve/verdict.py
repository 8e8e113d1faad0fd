"""Verdict on wafers and GPUs: which is faster for one user, and which is cheaper at what speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from wse.reports.intervals import SAMPLED_ON_WAFERS, interval_text, percent_text, range_of, with_interval
from wse.reports.number_text import count, plural, three_figures, words_with_and
from wse.reports.terminal import printable
from wse.studies.compare.curve.certainty import (
    EQUAL,
    Crossover,
    CurveCertainty,
    cheapest_of_kinds,
    crossover_of,
    fastest_of_kinds,
    full_cost,
)
from wse.studies.compare.curve.crossover import Interval, cheaper_speeds, fastest_speed
from wse.studies.compare.curve.samples import SampledMachines, figures_of
from wse.studies.compare.grid.verdict import rate
from wse.studies.compare.machine import GPU, WAFER, Machine

CROSSOVERS: Final[dict[Crossover, str]] = {
    "always": "at every speed",
    "never": "at no speed",
    "above": "above a certain speed (which GPUs also reach)",
    "alone": "only where GPUs are too slow",
    "other": "in other ranges of speed",
}
"""Description of the speeds at which tokens are cheaper on wafers."""


def curve_verdict(samples: SampledMachines, certainty: CurveCertainty) -> tuple[str, ...]:
    """Return five sentences that compare wafers with GPUs.

    They state which machines are compared, which is faster for a single user, which has the lowest
    cost per token, at which speeds per user tokens are cheaper on wafers, and how certain these
    statements are.

    Args:
        samples: Wafer and GPU machines, at least one of each, and the same machines in each sample.
        certainty: In what fraction of the samples each statement holds.
    """
    machines = [*samples]
    fastest_machines, cheapest_machines = fastest_of_kinds(machines), cheapest_of_kinds(machines)
    return (
        _machines_text(machines),
        _speed(fastest_machines, samples),
        _cheapest(cheapest_machines, samples),
        _crossover(machines, certainty),
        _certainty(fastest_machines, cheapest_machines, certainty),
    )


def _machines_text(machines: Sequence[Machine]) -> str:
    """Return a sentence that lists the compared numbers of each wafer and GPU."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for machine in machines:
        chip = "wafer" if machine.kind == WAFER else "GPU"
        numbers.setdefault((printable(machine.name), chip), set()).add(machine.deployment.chips)
    texts = []
    for (name, chip), counts in numbers.items():
        *first_counts, largest_count = sorted(counts)
        texts.append(f"{name} ({words_with_and([*map(count, first_counts), plural(largest_count, chip)])})")
    return f"Compared: {', '.join(texts)}. Other numbers of wafers or GPUs (--wafers, --gpus) may be cheaper."


def _speed(fastest_machines: Sequence[Machine], samples: SampledMachines) -> str:
    """Return a sentence that states which machine is faster for one user, and by what factor."""
    winner, loser = fastest_machines
    times = fastest_speed(winner) / fastest_speed(loser)
    rates = " against ".join(
        f"{rate(fastest_speed(machine))} {_interval(machine, samples, 1, 'tokens_per_s_per_user')}".rstrip()
        for machine in fastest_machines
    )
    comparison = "as fast" if times < 1 + EQUAL else f"{_times(times)} as fast"
    return f"After the first token, one user is {comparison} on {winner.text} as on {loser.text}: {rates}."


def _interval(machine: Machine, samples: SampledMachines, users: int, figure: str) -> str:
    """Format the 90 % interval of a machine's speed; empty if it has no width.

    Args:
        machine: Machine with the stated constants.
        samples: Each machine with the constants of every sample.
        users: Number of users.
        figure: Quantity of an operating point, such as ``tokens_per_s_per_user``.
    """
    value = getattr(machine.point(users), figure)
    return interval_text(range_of(value, figures_of(samples[machine], users)[figure]), count)


def _cheapest(cheapest_machines: Sequence[Machine], samples: SampledMachines) -> str:
    """Return a sentence about the lowest cost per token on wafers and on GPUs, at any speed."""
    winner, loser = cheapest_machines
    point = winner.point(winner.useful_users)
    return (
        f"A token is cheapest on {winner.text}, "
        f"{_price(winner, samples)} with {plural(point.users, 'user')} of "
        f"{rate(point.tokens_per_s_per_user or 0.0)}, against {_price(loser, samples)} on {loser.text}."
    )


def _price(machine: Machine, samples: SampledMachines) -> str:
    """Format the cost per million tokens at the maximum useful user count, with its interval."""
    sampled = figures_of(samples[machine], machine.useful_users)["usd_per_million_tokens"]
    value = full_cost(machine)
    return with_interval(three_figures(value), " USD per million", range_of(value, sampled), three_figures)


def _crossover(machines: Sequence[Machine], certainty: CurveCertainty) -> str:
    """Return a sentence that states at which speeds per user tokens are cheaper on wafers."""
    wafers, gpus = ([machine for machine in machines if machine.kind == kind] for kind in (WAFER, GPU))
    fastest_gpu_speed = max(fastest_speed(machine) for machine in gpus)
    wafers_are_faster = max(fastest_speed(machine) for machine in wafers) > fastest_gpu_speed
    gpu_speed_text = (
        f" The GPUs compared reach at most {rate(fastest_gpu_speed)} per user." if wafers_are_faster else ""
    )
    speeds = _speeds(cheaper_speeds(wafers, gpus), fastest_gpu_speed)
    text = with_interval(speeds, "", certainty.tokens_per_s, count)
    return f"At equal speed per user, tokens are cheaper on these wafers {text}.{gpu_speed_text}"


def _certainty(
    fastest_machines: Sequence[Machine], cheapest_machines: Sequence[Machine], certainty: CurveCertainty
) -> str:
    """Return a sentence that states in what fraction of the samples the verdict holds."""
    crossovers = words_with_and(
        [
            f"{CROSSOVERS[case]} in {percent_text(certainty.crossovers[case])}"
            for case in CROSSOVERS
            if case in certainty.crossovers
        ]
    )
    places = [f"{winner.text} than on {loser.text}" for winner, loser in (fastest_machines, cheapest_machines)]
    faster_share, cheaper_share = percent_text(certainty.faster), percent_text(certainty.cheaper)
    return (
        f"Of {certainty.samples} samples of the uncertain inputs ({SAMPLED_ON_WAFERS}), one user is faster on "
        f"{places[0]} in {faster_share} of them. A token is cheaper on {places[1]} in {cheaper_share} of them, if each "
        "machine serves the users with which its tokens are cheapest. At equal speed per user, tokens are cheaper on "
        f"the compared wafers {crossovers} of them."
    )


def _speeds(intervals: Sequence[Interval], fastest_gpu_speed: float) -> str:
    """Return a phrase for the speeds at which wafers are cheaper, such as "above 500 per user".

    Args:
        intervals: Ranges of speed in which wafers are cheaper, slowest first.
        fastest_gpu_speed: Highest speed that GPUs reach, in tokens/s per user.
    """
    crossover = crossover_of(intervals, fastest_gpu_speed)
    if crossover in ("always", "never", "alone"):
        return CROSSOVERS[crossover]
    texts = []
    for low, high in intervals:
        if low <= 1:
            texts.append(f"up to {rate(high)} per user")
        elif math.isinf(high):
            texts.append(f"above {rate(low)} per user")
        else:
            texts.append(f"between {rate(low)} and {rate(high)} per user")
    return " and ".join(texts)


def _times(times: float) -> str:
    """Format a factor, such as "2.5 times" or "12 times"."""
    return f"{times:,.0f} times" if times >= 10 else f"{times:.1f} times"
