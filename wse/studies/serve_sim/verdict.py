"""Verdict of a serving simulation: sentences on its load, on how long users wait, and on remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.reports.intervals import RangeResult, percent_text, with_interval
from wse.reports.number_text import count, percent, plural, seconds, three_figures
from wse.serving.goal import LATENCY, THROUGHPUT
from wse.serving.simulation.arrivals import ARRIVALS
from wse.serving.simulation.capacity import STABLE_LOAD, suggested_rate
from wse.studies.serve_sim.options import CONTINUOUS, LOAD

if TYPE_CHECKING:
    from wse.studies.serve_sim.result import ServeResult

PREDICTION_INTERVALS: Final = (
    "The intervals in brackets are for the uncertainty of the prediction; they are not percentiles of the requests."
)
QUEUE_OF_SAMPLE: Final = (
    " In an overloaded sample, requests arrive faster than they are served, so the queue grows until the last one."
)
LOAD_OF_SAMPLE: Final = (
    "For the 90 % intervals, uncertain inputs are sampled: every sample has its own capacity, and requests arrive at "
    "this fraction of it (with --rate, at the same rate in every sample)."
)
NO_INTERVALS: Final = (
    "90 % intervals are not available with a prefix cache, with separate machines for prompts or with --batch-wait."
)
SATURATED_STAGE: Final = 0.9
"""Fraction of the time from which on a stage, rather than the number of users, limits the capacity."""


def verdict_of(result: ServeResult) -> str:
    """Return sentences on the load of the service and, if it was simulated, on how long users wait."""
    if result.served is None:
        return _load_text(result)
    load_text, load = f"{_load_text(result)}{_limit(result)}", result.load
    waits, pace = result.served.all, ""
    if waits.tpot is not None:
        interval = _interval(result, "served.all.tpot.p50")
        speed_interval = None if interval is None else interval.reciprocal()
        speed = with_interval(count(1 / waits.tpot.p50), " tokens/s", speed_interval, count)
        pace = f", the median speed per user {speed}"
    ttft = with_interval(seconds(waits.ttft.p50), "", _interval(result, "served.all.ttft.p50"), seconds)
    medians = f"{load_text} The median TTFT is {ttft}{pace}."
    if not result.ranges:
        return medians if result.times_are_proportional else f"{medians} {NO_INTERVALS}"
    return f"{medians} {PREDICTION_INTERVALS}{QUEUE_OF_SAMPLE if load.stable and load.overloaded_share else ''}"


def _load_text(result: ServeResult) -> str:
    """Return sentences on the rate at which requests arrive, relative to the capacity."""
    load, rate = result.load, result.requests.rate_per_s
    capacity = f"{three_figures(load.capacity_requests_per_s)} requests/s"
    if rate is None or load.offered is None:
        return f"All requests arrive at once; {capacity} can be served."
    if result.requests.in_flight is not None:
        users = plural(result.requests.in_flight, "user")
        sends = "sends" if result.requests.in_flight == 1 else "send"
        think_s = result.requests.think_s
        arrivals = f"{users} {sends} {three_figures(rate)} requests/s"
        if think_s is None:
            return f"{arrivals}, each when the previous answer ends."
        return f"{arrivals}. Each pauses {seconds(think_s)} on average after an answer."
    if not load.stable:
        return (
            f"Overloaded: {three_figures(rate)} requests/s arrive and {capacity} can be served "
            f"(load {load.offered:.2f}), so the queue grows as long as they arrive. {_remedy(result, rate)}"
        )
    option = f" (--load, by default {LOAD:g})" if "load" in result.inputs else ""
    share = f"{percent(load.offered)}{option}"
    state = "Stable" if result.ranges else "Stable with the stated constants"
    if load.overloaded_share:
        samples = f"{percent_text(load.overloaded_share)} of the samples"
        state = f"Stable with the stated constants, overloaded in {samples}"
    text = f"{state}: {three_figures(rate)} requests/s arrive, {share} of the capacity of {capacity}."
    return f"{text} {LOAD_OF_SAMPLE}" if option and result.ranges else text


def _limit(result: ServeResult) -> str:
    """Return a sentence saying that the size of the KV cache limits the capacity, or "" if not.

    The KV cache is the limit if even the busiest stage is idle part of the time at full load.
    """
    is_pipeline = result.machine.stages > 1 and result.prefill_machine is None
    is_continuous = result.inputs["batching"] == CONTINUOUS
    if result.served is None or not result.load.offered or not is_pipeline or not is_continuous:
        return ""
    if result.served.prefix_cache is not None:  # prompts share blocks, so the room differs between requests
        return ""
    use, room = result.served.use, result.replicas * result.machine.kv_capacity_users
    stage_share = use.slowest_stage / result.load.offered
    if use.most_users < room or stage_share >= SATURATED_STAGE:
        return ""
    share = f"{stage_share:.0%}".replace("%", " %")
    limit = f"The capacity is limited by the {plural(room, 'KV cache')} for which there is room"
    return f" {limit}: with all of them in use, the busiest stage works only {share} of the time."


def _interval(result: ServeResult, path: str) -> RangeResult | None:
    """Return the 90 % interval of the figure at ``path`` in the result; None if it is unknown."""
    return (result.ranges or {}).get(path)


def _remedy(result: ServeResult, rate: float) -> str:
    """Suggest options that reduce the load of an overloaded service to at most `STABLE_LOAD`.

    More replicas are suggested only for continuous batching, because static batches do not
    support them.

    Args:
        result: Result of the simulation.
        rate: Arrival rate per second, which exceeds the service's capacity.
    """
    is_drawn, is_continuous = result.requests.arrivals in ARRIVALS, result.inputs["batching"] == CONTINUOUS
    remedies = [f"`--rate {suggested_rate(result.load.stable_requests_per_s):.10g}` or less"]
    if is_continuous:
        replicas = result.load.replicas_needed or 1
        machines = [result.machine.systems_of(replicas)]
        if result.prefill_machine is not None:
            machines = [f"{machines[0]} for decode", f"{result.prefill_machine.systems_of(replicas)} for prefill"]
        rate_text = f"--rate {rate:g} " if is_drawn else ""
        remedies.append(f"`{rate_text}--replicas {replicas}` ({' and '.join(machines)} in total)")
    other_options = ("--load", "--users", "--time-scale")
    given_options = [name for name in other_options if name[2:].replace("-", "_") in result.inputs]
    other_option = f" instead of {given_options[0]}" if given_options else ""
    start = "Give"
    if result.inputs.get("objective") == LATENCY:
        start = f"First leave out `--objective {LATENCY}`, because the layout for {THROUGHPUT} serves more "
        start += "requests. With this layout, give"
    goal = f"for a load of at most {STABLE_LOAD:g} with the stated constants"
    samples = "The result with such an option states in what percentage of the samples the service is overloaded."
    return f"{start} {', or '.join(remedies)}{other_option}, {goal}. {samples}"
