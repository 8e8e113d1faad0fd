"""Study behind ``wse serve-sim``: compiles, finds the capacity, and simulates the service.

Random requests are only served if their queue is stable. Requests from a file are always served,
because their number is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wse.reports.progress import OnProgress, ignore
from wse.serving.operating_point import operating_point
from wse.serving.simulation.arrivals import CONSTANT
from wse.serving.simulation.capacity import capacity_requests_per_s, closed_loop_requests_per_s
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.workload import Workload
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.serve_sim.inputs import inputs
from wse.studies.serve_sim.machines.drafts import drawn_drafts
from wse.studies.serve_sim.machines.gpus import gpu_machine
from wse.studies.serve_sim.machines.kv_transfer import kv_transfer
from wse.studies.serve_sim.machines.machine import ServingMachine, check_room, max_users_of
from wse.studies.serve_sim.machines.wafers import wafer_machine
from wse.studies.serve_sim.prefill_machine import Placement, prefill_errors
from wse.studies.serve_sim.prepare import PreparedServe, prepare_serve
from wse.studies.serve_sim.ranges import GivenRate, ranges_of_service
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.result import STABLE_LOAD, LoadResult, RequestsResult, ServedResult, ServeResult
from wse.studies.serve_sim.served import served_result
from wse.studies.serve_sim.simulators import Simulate, simulator

SERVED, INTERVALS = "requests", "intervals"
"""Activities in reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Result of a serving simulation, and the times of all requests.

    The times are missing if no requests were simulated, because they arrive faster than they can be
    served.
    """

    result: ServeResult
    outcome: SimulationOutcome | None


def serve(request: ServeRequest, on_progress: OnProgress = ignore) -> Service:
    """Simulate a service whose requests arrive over time.

    1. Validate the request, and compile the decode and prefill machines.
    2. Find the capacity of a replica: the rate at which requests are served if the queue is never
       empty.
    3. Determine the number of replicas and the arrival times of random requests.
    4. Simulate the service, unless random requests arrive faster than they can be served.
    5. Collect the result, with 90 % intervals if all times are proportional to those of the decode
       machine. For requests at a given rate, they need two further simulations.

    Args:
        request: The simulation options.
        on_progress: Called with (requests served, total, current activity).

    Raises:
        BadInput: An option is invalid, or an item that it names, such as a model or a file, is
            missing or unusable. The subclass indicates the cause.
        DoesNotFit: The model, or the longest request, does not fit.
    """
    prepared_serve = prepare_serve(request)
    total = len(prepared_serve.workload)
    on_progress(0, total, "compiling")
    decode = serving_machine(prepared_serve, prepared_serve.decode)
    drafts = random_drafts(prepared_serve, decode)
    with prefill_errors(request):
        prefill = None if prepared_serve.prefill is None else serving_machine(prepared_serve, prepared_serve.prefill)
    check_room(prepared_serve.workload, decode.costs)
    max_users = max_users_of(
        request.batches.max_users, prepared_serve.workload, decode.costs, shares_prefixes=request.keeps_prefixes
    )
    simulate_one = simulator(prepared_serve, decode, prefill, max_users, drafts, replicas=1)
    on_progress(0, total, "capacity")
    replica_capacity = capacity_requests_per_s(
        prepared_serve.workload, max_users, lambda workload: simulate_one(workload, on_done=_silent)
    )
    replicas = _replicas(prepared_serve, decode, replica_capacity)
    capacity = replicas * replica_capacity
    workload = prepared_serve.workload
    if not prepared_serve.has_times:
        workload = _with_arrival_times(prepared_serve, decode, capacity, replicas, simulate_one)
    simulate = simulator(prepared_serve, decode, prefill, max_users, drafts, replicas)
    rate = workload.rate_per_s
    is_closed_loop, arrives_at_once = workload.in_flight is not None, math.isinf(rate)
    is_stable = is_closed_loop or rate < capacity
    outcome = None
    if is_stable or arrives_at_once or prepared_serve.has_times:
        outcome = simulate(workload, on_done=_watcher(on_progress, SERVED))
        rate = len(workload) / outcome.makespan_s if is_closed_loop else rate
    result = ServeResult(
        inputs=inputs(prepared_serve, decode, max_users, replicas),
        replicas=replicas,
        note=prepared_serve.decode.note,
        model=decode.model,
        machine=decode.result,
        prefill_machine=None if prefill is None else prefill.result,
        kv_transfer=None if prefill is None else kv_transfer(prepared_serve, decode, prefill),
        kv_tiers=decode.kv_tiers or None,
        drafts=decode.drafts,
        requests=_requests_result(prepared_serve, workload, None if arrives_at_once else rate),
        load=LoadResult(
            capacity_requests_per_s=capacity,
            offered=None if arrives_at_once else rate / capacity,
            stable=is_stable,
            stable_requests_per_s=STABLE_LOAD * capacity,
            replicas_needed=None if is_stable or arrives_at_once else _stable_replicas(rate, replica_capacity),
        ),
        served=None if outcome is None else served_result(prepared_serve, outcome, decode, prefill, max_users),
    )
    if outcome is not None and result.times_are_proportional:
        watched = partial(simulate, on_done=_watcher(on_progress, INTERVALS))
        result = _with_ranges(result, prepared_serve, outcome, decode, max_users, watched)
    on_progress(total, total, "")
    return Service(result=result, outcome=outcome)


def _watcher(on_progress: OnProgress, activity: str) -> OnDone:
    """Return a function that reports the progress of a simulation.

    The last request is not reported, because progress displays end when all parts are finished, and
    further simulations may follow.

    Args:
        on_progress: Called with (requests served, total, activity).
        activity: Name of the simulation.
    """
    return lambda done_count, count: on_progress(min(done_count, count - 1), count, activity)


def _requests_result(prepared_serve: PreparedServe, workload: Workload, rate: float | None) -> RequestsResult:
    """Return the number, rate and lengths of the requests.

    Args:
        prepared_serve: The serving request.
        workload: The users' requests at their final arrival times.
        rate: Requests per second; None if all arrive at once.
    """
    return RequestsResult(
        count=len(workload),
        arrivals=str(prepared_serve.request.arrivals),
        rate_of_users=prepared_serve.rate_of_users,
        rate_per_s=rate,
        prompt_tokens=float(workload.prompt_tokens.mean()),
        new_tokens=float(workload.new_tokens.mean()),
        in_flight=workload.in_flight,
        think_s=workload.think_s or None,
        **_trace_fields(prepared_serve),
    )


def _with_ranges(
    result: ServeResult,
    prepared_serve: PreparedServe,
    outcome: SimulationOutcome,
    decode: ServingMachine,
    max_users: int,
    simulate: Callable[[Workload], SimulationOutcome],
) -> ServeResult:
    """Add 90 % intervals to the result of a simulated service, if the machine has them.

    Args:
        result: The result without intervals.
        prepared_serve: The serving request.
        outcome: The times of all requests.
        decode: One replica, which also reads the prompts.
        max_users: Maximum number of concurrent users per replica.
        simulate: Function that simulates the service with other arrival times.
    """
    if result.served is None:
        return result

    def served_at(rate_multiple: float) -> ServedResult:
        """Simulate the service at a multiple of the arrival rate."""
        workload = outcome.workload.at_rate(rate_multiple * outcome.workload.rate_per_s)
        return served_result(prepared_serve, simulate(workload), decode, None, max_users)

    has_rate = prepared_serve.has_times or prepared_serve.request.traffic.rate is not None
    load = result.load.offered if has_rate else None
    given_rate = None if load is None else GivenRate(load=load, served_at=served_at)
    in_flight = outcome.little[0] / result.replicas
    ranges = ranges_of_service(result.served, decode, in_flight=in_flight, given_rate=given_rate)
    if ranges is None:
        return result
    load_result = replace(result.load, overloaded_share=ranges.overloaded_share)
    return replace(result, load=load_result, ranges=ranges.intervals)


def _trace_fields(prepared_serve: PreparedServe) -> dict[str, Any]:
    """Return the fields of `RequestsResult` that describe a trace; none for random requests."""
    trace = prepared_serve.trace
    if trace is None:
        return {}
    return {
        "trace_format": trace.title,
        "too_long": trace.too_long or None,
        "without_answer": trace.without_answer or None,
    }


def _replicas(prepared_serve: PreparedServe, decode: ServingMachine, capacity: float) -> int:
    """Return the number of replicas (identical machines that share the requests).

    The first applicable rule determines the number:

    1. If ``--replicas`` is a number, it is this number.
    2. With ``--users``, it is the number for which the layout was chosen. If the layout does not
       determine it, it is the minimum number whose KV caches have room for all users. If users
       pause between requests and fewer replicas suffice for their request rate, it is this smaller
       number.
    3. Otherwise, it is the minimum number at which the queue stays short.

    Args:
        prepared_serve: The serving request.
        decode: One replica.
        capacity: Requests per second that one replica can serve.
    """
    request = prepared_serve.request
    if request.base.replicas is not None:
        return request.base.replicas
    users, think_s = request.base.serving.users, prepared_serve.workload.think_s
    if users is not None:
        for_all = decode.replicas or math.ceil(users / decode.result.kv_capacity_users)
        return min(for_all, _stable_replicas(users / think_s, capacity)) if think_s else for_all
    return _stable_replicas(request.traffic.rate or prepared_serve.workload.rate_per_s, capacity)


def _stable_replicas(rate: float, capacity: float) -> int:
    """Return the minimum number of replicas (identical machines) at which the queue stays short.

    The load of each replica, i.e. the arrival rate relative to capacity, is at most `STABLE_LOAD`.
    The result is 1 if all requests arrive at once.

    Args:
        rate: Arrivals per second.
        capacity: Requests per second that one replica can serve.
    """
    return max(1, math.ceil(round(rate / capacity / STABLE_LOAD, 9))) if math.isfinite(rate) else 1


def _with_arrival_times(
    prepared_serve: PreparedServe, decode: ServingMachine, capacity: float, replicas: int, simulate_one: Simulate
) -> Workload:
    """Return random requests with arrival times at the requested rate.

    The first applicable rule determines the rate:

    1. With ``--rate``, the specified rate is used.
    2. With ``--users``, it is the rate of a closed loop, in which each user
       sends the next request when the previous answer has ended and the think time is over.
       Requests with constant arrivals are simulated as such a loop.
    3. Otherwise, it is a fraction of the capacity, specified by ``--load`` or by default.

    Args:
        prepared_serve: The serving request.
        decode: One replica.
        capacity: Requests per second that all replicas can serve.
        replicas: Number of replicas.
        simulate_one: Function that simulates one replica.
    """
    request, users = prepared_serve.request, prepared_serve.rate_of_users
    if request.traffic.rate is not None:
        return prepared_serve.workload.at_rate(request.traffic.rate)
    if users is None:
        return prepared_serve.workload.at_rate(prepared_serve.load * capacity)
    think_s, rate = prepared_serve.workload.think_s, capacity
    if not think_s:
        rate = operating_point(decode.deployment, users, replicas).requests_per_s
    elif math.isfinite(capacity):
        rate = min(capacity, users / think_s)
    replica_users = math.ceil(users / replicas)
    replica_rate = closed_loop_requests_per_s(
        prepared_serve.workload, replica_users, rate * replica_users / users, partial(simulate_one, on_done=_silent)
    )
    rate = replica_rate * users / replica_users
    workload = prepared_serve.workload.at_rate(rate)
    return replace(workload, in_flight=users) if request.arrivals == CONSTANT else workload


def _silent(done_requests: int, total_requests: int) -> None:
    """Do nothing, in place of a progress report, while simulations search for the capacity."""


def serving_machine(prepared_serve: PreparedServe, placement: Placement) -> ServingMachine:
    """Compile and time the passes of a validated request, on wafers or GPUs."""
    request = prepared_serve.request
    tokens = math.ceil(prepared_serve.workload.prompt_tokens.mean() + prepared_serve.workload.new_tokens.mean())
    if isinstance(placement, PreparedGpuEstimate):
        return gpu_machine(placement, prepared_serve.context, tokens, request.draft_tokens, request.parking)
    return wafer_machine(placement, tokens, request.draft_tokens, request.parking)


def random_drafts(prepared_serve: PreparedServe, decode: ServingMachine) -> Drafts | None:
    """Return the drafts of the simulation, whose tokens are accepted at random.

    Drafts are tokens that a faster method proposes and the model verifies in one pass.

    Returns:
        The drafts, or None if there are none or they would not increase the speed.
    """
    acceptance = prepared_serve.decode.acceptance
    if acceptance is None or decode.drafts is None or not decode.drafts.draft_tokens:
        return None
    return drawn_drafts(acceptance, decode.drafts.draft_tokens, prepared_serve.request.traffic.seed)
