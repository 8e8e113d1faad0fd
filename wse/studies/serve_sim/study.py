"""Study behind ``wse serve-sim``: compiles, finds the capacity, and simulates the service.

Random requests are only served if their queue is stable. Requests from a file are always served,
because their number is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from wse.errors import BadInput
from wse.reports.progress import OnProgress, ignore
from wse.serving.operating_point import operating_point
from wse.serving.simulation.arrivals import CONSTANT
from wse.serving.simulation.capacity import (
    STABLE_LOAD,
    capacity_requests_per_s,
    closed_loop_requests_per_s,
    stable_replicas,
    suggested_rate,
)
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.workload import Workload
from wse.studies.serve_sim.inputs import inputs
from wse.studies.serve_sim.machines.compile_service import compile_service
from wse.studies.serve_sim.machines.service_machines import ServiceMachines, Simulate
from wse.studies.serve_sim.prepare import PreparedServe, prepare_serve
from wse.studies.serve_sim.ranges import ranges_of_service
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.result import LoadResult, RequestsResult, ServedResult, ServeResult
from wse.studies.serve_sim.served import served_result

SERVED, INTERVALS = "requests", "intervals"
"""Activities in reports of progress."""
MAX_REPLICAS: Final = 10_000
"""Maximum number of replicas that are simulated because of ``--rate``."""


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
    workload = prepared_serve.workload
    machines = compile_service(prepared_serve, longest_requests=workload, shortest_requests=workload)
    on_progress(0, total, "capacity")
    replica_capacity = capacity_requests_per_s(workload, machines.max_users, machines.simulator(1))
    replicas = _replicas(machines, replica_capacity)
    capacity = replicas * replica_capacity
    if not prepared_serve.has_times:
        workload = _with_arrival_times(machines, capacity, replicas)
    rate = workload.rate_per_s
    is_closed_loop, arrives_at_once = workload.in_flight is not None, math.isinf(rate)
    is_stable = is_closed_loop or rate < capacity
    outcome = None
    if is_stable or arrives_at_once or prepared_serve.has_times:
        outcome = machines.simulator(replicas, _watcher(on_progress, SERVED))(workload)
        rate = len(workload) / outcome.makespan_s if is_closed_loop else rate
    result = ServeResult(
        inputs=inputs(machines, replicas),
        replicas=replicas,
        note=prepared_serve.decode.note,
        model=machines.decode.model,
        machine=machines.decode.result,
        prefill_machine=None if machines.prefill is None else machines.prefill.result,
        kv_transfer=machines.kv_transfer(),
        kv_tiers=machines.decode.kv_tiers or None,
        drafts=machines.decode.drafts,
        requests=_requests_result(prepared_serve, workload, None if arrives_at_once else rate),
        load=LoadResult(
            capacity_requests_per_s=capacity,
            offered=None if arrives_at_once else rate / capacity,
            stable=is_stable,
            stable_requests_per_s=STABLE_LOAD * capacity,
            replicas_needed=None if is_stable or arrives_at_once else stable_replicas(rate, replica_capacity),
        ),
        served=None if outcome is None else served_result(machines, outcome),
    )
    if outcome is not None and result.times_are_proportional:
        simulate = machines.simulator(replicas, _watcher(on_progress, INTERVALS))
        result = _with_ranges(result, machines, outcome, simulate)
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
    trace = prepared_serve.trace
    return RequestsResult(
        count=len(workload),
        arrivals=str(prepared_serve.request.arrivals),
        rate_of_users=prepared_serve.rate_of_users,
        rate_per_s=rate,
        prompt_tokens=float(workload.prompt_tokens.mean()),
        new_tokens=float(workload.new_tokens.mean()),
        in_flight=workload.in_flight,
        think_s=workload.think_s or None,
        trace_format=None if trace is None else trace.title,
        too_long=None if trace is None else trace.too_long or None,
        without_answer=None if trace is None else trace.without_answer or None,
    )


def _with_ranges(
    result: ServeResult, machines: ServiceMachines, outcome: SimulationOutcome, simulate: Simulate
) -> ServeResult:
    """Add 90 % intervals to the result of a simulated service, if the machine has them.

    Args:
        result: The result without intervals.
        machines: The machines. The decode machine also reads the prompts.
        outcome: The times of all requests.
        simulate: Function that simulates the service with other arrival times.
    """
    if result.served is None:
        return result

    def served_at(rate_multiple: float) -> ServedResult:
        """Simulate the service at a multiple of the arrival rate."""
        workload = outcome.workload.at_rate(rate_multiple * outcome.workload.rate_per_s)
        return served_result(machines, simulate(workload))

    has_rate = machines.prepared.has_times or machines.prepared.request.traffic.rate is not None
    users = result.requests.in_flight if result.requests.think_s else None
    ranges = ranges_of_service(
        result.served,
        machines.decode,
        users=(users or outcome.little[0]) / result.replicas,
        given_load=result.load.offered if has_rate else None,
        served_at=served_at,
    )
    if ranges is None:
        return result
    load_result = replace(result.load, overloaded_share=ranges.overloaded_share)
    return replace(result, load=load_result, ranges=ranges.intervals)


def _replicas(machines: ServiceMachines, capacity: float) -> int:
    """Return the number of replicas (identical machines that share the requests).

    The first applicable rule determines the number:

    1. If ``--replicas`` is a number, it is this number.
    2. With ``--users``, it is the number for which the layout was chosen. If the layout does not
       determine it, it is the minimum number with room for the KV caches of all requests in flight:
       if users pause for Z seconds, a replica with room for n requests has n + Z x capacity users.
    3. Otherwise, it is the minimum number at which the queue stays short. With ``--rate``, it is
       limited to `MAX_REPLICAS`.

    Args:
        machines: The machines.
        capacity: Requests per second that one replica can serve.

    Raises:
        BadInput: More than `MAX_REPLICAS` would be necessary.
    """
    prepared_serve, decode = machines.prepared, machines.decode
    request = prepared_serve.request
    if request.base.replicas is not None:
        return request.base.replicas
    users, think_s = request.base.serving.users, prepared_serve.workload.think_s
    if users is not None:
        pausing_users = capacity * think_s if think_s else 0
        return decode.replicas or max(1, math.ceil(users / (decode.result.kv_capacity_users + pausing_users)))
    rate = request.traffic.rate or prepared_serve.workload.rate_per_s
    replicas = stable_replicas(rate, capacity)
    if replicas > MAX_REPLICAS and request.traffic.rate is not None:
        max_rate = suggested_rate(MAX_REPLICAS * STABLE_LOAD * capacity)
        raise BadInput(
            f"--rate {rate:g}: {replicas:,} replicas are necessary, and at most {MAX_REPLICAS:,} are simulated; "
            f"give a rate of at most {max_rate:.10g}"
        )
    return replicas


def _with_arrival_times(machines: ServiceMachines, capacity: float, replicas: int) -> Workload:
    """Return random requests with arrival times at the requested rate.

    The first applicable rule determines the rate:

    1. With ``--rate``, the specified rate is used.
    2. With ``--users``, it is the rate of a closed loop, in which each user
       sends the next request when the previous answer has ended and the think time is over.
       Requests with constant arrivals are simulated as such a loop. If some replicas have one user
       more than others, the rates of both kinds are simulated and added.
    3. Otherwise, it is a fraction of the capacity, specified by ``--load`` or by default.

    Args:
        machines: The machines.
        capacity: Requests per second that all replicas can serve.
        replicas: Number of replicas.
    """
    request, users = machines.prepared.request, machines.prepared.rate_of_users
    workload = machines.prepared.workload
    if request.traffic.rate is not None:
        return workload.at_rate(request.traffic.rate)
    if users is None:
        return workload.at_rate(machines.prepared.load * capacity)
    rate = operating_point(machines.decode.deployment, users, replicas).requests_per_s
    min_users, fuller_replicas = divmod(users, replicas)
    machines_by_users = {min_users + 1: fuller_replicas, min_users: replicas - fuller_replicas}
    rate_of_users = sum(
        count * closed_loop_requests_per_s(workload, replica_users, rate * replica_users / users, machines.simulator(1))
        for replica_users, count in machines_by_users.items()
        if count
    )
    workload = workload.at_rate(rate_of_users)
    return replace(workload, in_flight=users) if request.arrivals == CONSTANT else workload
