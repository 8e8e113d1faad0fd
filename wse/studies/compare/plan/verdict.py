"""Verdict on a ranking: the best machine within the limits, and wafers compared with GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from wse.reports.intervals import SAMPLED_ON_WAFERS, percent_text, with_interval
from wse.reports.number_text import count, percent, plural, ranged, seconds, three_figures
from wse.serving.goal import COST, LATENCY, PURPOSES, THROUGHPUT, Goal
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.certainty import million_tokens_usd, usd_per_chip_hour
from wse.studies.compare.plan.result import CheaperResult, PlannedRow
from wse.studies.compare.plan.rows import compares_hours, usd_per_hour

BEST: Final = {LATENCY: "fastest", THROUGHPUT: "one with the most throughput", COST: "cheapest per token"}
"""Description of the machine that comes first for each objective."""
BETTER: Final = {
    LATENCY: "a lower latency of a whole request",
    THROUGHPUT: "a higher throughput",
    COST: "a lower cost per token",
}
"""Advantage of the better of two machines for each objective."""


def plan_verdict(
    rows: Sequence[PlannedRow],
    goal: Goal,
    lengths: Sequence[tuple[int, int]],
    cheaper_results: Sequence[CheaperResult],
) -> tuple[str, ...]:
    """Return the verdict on a ranking: sentences that name the best machines.

    There are separate sentences for each pair of prompt and answer lengths.

    Args:
        rows: All machines that were tried, best first.
        goal: Users, latency limits and objective.
        lengths: (prompt tokens, new tokens) pairs.
        cheaper_results: Whether wafers or GPUs are cheaper, for pairs of lengths.
    """
    rows_by_lengths = ([row for row in rows if (row.prompt_len, row.new_tokens) == pair] for pair in lengths)
    cheaper_by_lengths = {(result.prompt_len, result.new_tokens): result for result in cheaper_results}
    pairs = zip(lengths, rows_by_lengths, strict=True)
    return tuple(
        sentence
        for pair, group in pairs
        for sentence in _sentences(pair, group, goal, cheaper_by_lengths.get(pair))
        if sentence
    )


def _sentences(
    lengths: tuple[int, int], rows: Sequence[PlannedRow], goal: Goal, cheaper: CheaperResult | None
) -> Iterator[str]:
    """Yield the sentences of the verdict for one pair of prompt and answer lengths.

    They state how many machines meet the limits and which one is best. If there are both wafers and
    GPUs, the best machine of each kind is compared.
    """
    lengths_text = f"{lengths[0]:,} + {lengths[1]:,} tokens"
    if not rows:
        yield f"{lengths_text}: no machine that was tried holds the model and the KV cache of one request."
        return
    best, keeping, limits = BEST[goal.objective], [row for row in rows if row.keeps], _limits(goal)
    machines = plural(len(rows), "machine")
    if goal.users is None and not limits:
        users_note = " for one user" if goal.objective == LATENCY else ""
        yield f"{lengths_text}: the {best} of {machines}{users_note} is {_text(rows[0])}."
    elif keeping:
        serve = "serves" if len(keeping) == 1 else "serve"
        verdict = f"{len(keeping)} of {machines} {serve} {_users(goal)}{limits}"
        note = " for a whole request" if goal.objective == LATENCY else ""
        yield f"{lengths_text}: {verdict}; the {best}{note} is {_text(rows[0])}."
    else:
        yield f"{lengths_text}: none of {machines} serves {_users(goal)}{limits}."
    wafers, gpus = ([row for row in rows if row.kind == kind] for kind in (WAFER, GPU))
    if wafers and gpus:
        yield from _wafers_or_gpus(wafers[0], gpus[0], goal, cheaper)
    if goal.users is not None:
        yield _replicas_or_one([row for row in wafers if row.keeps], goal)
    if keeping and compares_hours(goal):
        cheapest, limits_text = _cheapest_per_hour(keeping), " within the limits" if limits else ""
        if cheapest is not None:
            yield f"Of the machines that serve all users{limits_text}, {_lowest_price(cheapest)}."
        cheapest_wafers = _cheapest_per_hour([row for row in wafers if row.keeps])
        if cheapest_wafers is not None and cheapest_wafers is not cheapest:
            yield f"Of the wafers that serve all users{limits_text}, {_lowest_price(cheapest_wafers)}."
    if not keeping and not (wafers and gpus):
        yield f"The nearest is {_near(rows[0], goal)}."


def _wafers_or_gpus(wafers: PlannedRow, gpus: PlannedRow, goal: Goal, cheaper: CheaperResult | None) -> Iterator[str]:
    """Yield sentences that compare the best wafers with the best GPUs.

    If the wafers or the GPUs do not meet the limits, a sentence states by how much they miss them,
    and the comparison is left out.
    """
    names: dict[str, str] = {WAFER: "wafers", GPU: "GPUs"}
    for row in (wafers, gpus):
        if not row.keeps:
            yield f"None of the {names[row.kind]} that were tried do so; the nearest is {_near(row, goal)}."
    if not (wafers.keeps and gpus.keeps):
        return
    if goal.objective != COST:
        yield f"The {BEST[goal.objective]} of wafers is {_text(wafers)}; that of GPUs is {_text(gpus)}."
        return
    if cheaper is None:
        return
    low, high = (wafers, gpus) if cheaper.kind == WAFER else (gpus, wafers)
    ratio = _ratio(cheaper.ratio)
    costs = "about as much" if ratio == "1.00" else f"{ratio} times as much"
    speeds = ""
    if low.tokens_per_s_per_user and high.tokens_per_s_per_user:
        times = high.tokens_per_s_per_user / low.tokens_per_s_per_user
        share = f"{three_figures(times)} times as many" if times >= 1 else f"{percent(times)} of the"
        speeds = f", and each user gets {share} tokens/s"
    yield (
        f"On {names[high.kind]}, a token costs {costs} as on {names[low.kind]}{speeds}. The {names[high.kind]} with "
        f"{PURPOSES[COST]} are {_text(high)}."
    )
    text = (
        f"In {percent_text(cheaper.share)} of {cheaper.samples} samples of the uncertain inputs "
        f"({SAMPLED_ON_WAFERS}), "
        f"a token is cheaper on {low.machine} than on {high.machine}"
    )
    if cheaper.share < 0.5:
        text += f"; in the others it is cheaper on {high.machine}"
    yield f"{text}."
    yield (
        f"A token would cost the same on {wafers.machine} as on {gpus.machine} if a wafer cost "
        f"{three_figures(cheaper.break_even_usd_per_wafer_hour)} USD per hour (the price used is "
        f"{three_figures(usd_per_chip_hour(wafers))})."
    )


def _replicas_or_one(wafers: Sequence[PlannedRow], goal: Goal) -> str:
    """Return a sentence that compares replicas of wafers with one machine of the same wafers in total.

    It is about the number of wafers with the best row of those for which there are rows of both
    kinds, and empty if there is none.

    Args:
        wafers: Rows of wafers that serve all users within the limits, best first.
        goal: Users, latency limits and objective.
    """
    pairs = (
        (row, other_row)
        for row, other_row in combinations(wafers, 2)
        if row.replicas * row.chips == other_row.replicas * other_row.chips
        and (row.replicas == 1) != (other_row.replicas == 1)
    )
    first, second = next(pairs, (None, None))
    if first is None or second is None:
        return ""
    better_text, other_text = (
        ("a single machine has", "replicas") if first.replicas == 1 else ("replicas have", "a single machine")
    )
    first_text, second_text = (f"{row.machine} with {_figures(row, goal)}" for row in (first, second))
    comparison = f"{better_text} {BETTER[goal.objective]} than {other_text}: {first_text}, {second_text}"
    return f"On {plural(first.replicas * first.chips, 'wafer')} in total, {comparison}."


def _figures(row: PlannedRow, goal: Goal) -> str:
    """Return the figure of a machine that the objective optimizes, with its cost or speed."""
    cost = f"{three_figures(million_tokens_usd(row))} USD per million tokens"
    if goal.objective == THROUGHPUT:
        return f"{count(row.tokens_per_s)} tokens/s of all users and {cost}"
    if goal.objective == LATENCY:
        return f"{seconds(row.request_s)} per request and {cost}"
    return f"{cost} and {three_figures(row.tokens_per_s_per_user or 0.0)} tokens/s per user"


def _lowest_price(row: PlannedRow) -> str:
    """Return a phrase that says that a machine has the lowest price per hour."""
    return f"{row.machine} has the lowest price per hour: {three_figures(usd_per_hour(row))} USD"


def _cheapest_per_hour(rows: Sequence[PlannedRow]) -> PlannedRow | None:
    """Return the row with the lowest price per hour, unless the first row costs no more per hour.

    Args:
        rows: Rows that meet the limits, cheapest per token first.

    Returns:
        The row, or None if no row costs less per hour than the first one.
    """
    lowest = min(rows, key=usd_per_hour, default=None)
    return lowest if lowest is not None and usd_per_hour(lowest) < usd_per_hour(rows[0]) else None


def _near(row: PlannedRow, goal: Goal) -> str:
    """Describe a machine that does not meet the goal, and state by how much it misses.

    The description lists the latencies that exceed their limits or, if none does, the number of
    users that fit.
    """
    latencies = (("TTFT", row.ttft_s, goal.ttft_s), ("TPOT", row.tpot_s, goal.tpot_s))
    misses = [
        f"{name} {seconds(latency_s)}, {_excess_text(latency_s / limit_s)} the limit"
        for name, latency_s, limit_s in latencies
        if limit_s is not None and latency_s is not None and latency_s > limit_s
    ]
    users = plural(row.users, "user")
    if not misses:
        room = f", {row.max_users:,} at a time" if row.max_users < row.requests else ""
        return f"{row.machine}, which serves at most {users}{room}: {_ratio(row.excess)} times as many are requested"
    return f"{row.machine} with {' and '.join(misses)}, for {users}"


def _excess_text(times: float) -> str:
    """Return a phrase such as "2.07 times" or "0.1 % above" for a latency relative to its limit."""
    return f"{percent(times - 1)} above" if times < 1.1 else f"{_ratio(times)} times"


def _ratio(times: float) -> str:
    """Format a ratio with two decimals if it is below 100, else rounded to an integer."""
    return f"{times:,.0f}" if times >= 100 else f"{times:.2f}"


def _limits(goal: Goal) -> str:
    """Format the latency limits, for example " within TTFT 200 ms and TPOT 20 ms".

    The phrase starts with a space. It is empty if there are no limits.
    """
    limits = [("TTFT", goal.ttft_s), ("TPOT", goal.tpot_s)]
    texts = [f"{name} {seconds(limit)}" for name, limit in limits if limit is not None]
    return f" within {' and '.join(texts)}" if texts else ""


def _users(goal: Goal) -> str:
    """Return a phrase for the number of users to serve, such as "64 users".

    If the goal specifies no number, the phrase is "one user" if the objective is latency, and
    "users" otherwise.
    """
    if goal.users is not None:
        return plural(goal.users, "user")
    return "one user" if goal.objective == LATENCY else "users"


def _text(row: PlannedRow) -> str:
    """Describe a machine with its speed, latency and costs, and how often it keeps the limits."""
    ranges, speed = row.ranges or {}, ""
    if row.tokens_per_s_per_user is not None:
        interval = ranges.get("tokens_per_s_per_user")
        text = three_figures(row.tokens_per_s_per_user)
        speed = f"{with_interval(text, ' tokens/s per user', interval, three_figures)}, "
    if row.saturated:
        requests = plural(row.users, "user") if row.in_flight is None else f"{count(row.in_flight)} requests in flight"
        speed += f"{count(row.decoding_users)} of {requests} decoding on average (the others have no first token yet), "
    low, high = row.usd_per_million_tokens_low or 0.0, row.usd_per_million_tokens_high or 0.0
    usd, cost_interval = million_tokens_usd(row), ranges.get("usd_per_million_tokens")
    if cost_interval is None:
        cost = f"{ranged(usd, low, high, three_figures, ' USD')} per million tokens"
    else:
        cost = with_interval(three_figures(usd), " USD per million tokens", cost_interval, three_figures)
    ttft = with_interval(f"TTFT {seconds(row.ttft_s)}", "", ranges.get("ttft_s"), seconds)
    limits_share = (
        "" if row.within_limits is None else f", within the limits in {percent_text(row.within_limits)} of samples"
    )
    return f"{row.machine} with {speed}{ttft}, {cost} and {three_figures(row.usd_per_hour or 0.0)} USD/h{limits_share}"
