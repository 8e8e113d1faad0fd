"""The study behind ``wse serve-sim``: compiles, finds the capacity, and simulates the service.

Random requests are only served if their queue is stable. Requests from a file are always served,
because their number is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from wse.errors import BadInput, DoesNotFit
from wse.reports.progress import OnProgress, ignore
from wse.serving.deployment.gpus import MAX_BATCHED_TOKENS
from wse.serving.operating_point import operating_point
from wse.serving.simulation.arrivals import CONSTANT
from wse.serving.simulation.capacity import capacity_requests_per_s, closed_loop_requests_per_s
from wse.serving.simulation.continuous.machine import ContinuousMachine, simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.pass_costs import PassCosts, users_that_fit
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.replicas import simulate_replicas
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.workload import Workload
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.options.option import get_option
from wse.studies.serve.machines.drafts import drawn_drafts
from wse.studies.serve.machines.gpus import gpu_machine
from wse.studies.serve.machines.kv_transfer import KvTransferResult, kv_transfer
from wse.studies.serve.machines.machine import ServingMachine
from wse.studies.serve.machines.wafers import wafer_machine
from wse.studies.serve.options import LEAST_LOADED, STATIC
from wse.studies.serve.prefill_machine import Placement, prefill_errors
from wse.studies.serve.prepare import PreparedServe, prepare_serve
from wse.studies.serve.request import ServeRequest
from wse.studies.serve.result import STABLE_LOAD, LoadResult, RequestsResult, ServeResult
from wse.studies.serve.served import served_result

SERVED: Final = "requests"


class Simulate(Protocol):
    """A function that simulates how the requests of a workload are served."""

    def __call__(self, workload: Workload, *, on_done: OnDone) -> SimulationOutcome:
        """Simulate how the requests of a workload are served, and return when each one was.

        Args:
            workload: The requests with their arrival times and lengths.
            on_done: Called with (requests served, total).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The result of a serving simulation, and the times of all requests if they were served."""

    result: ServeResult
    outcome: SimulationOutcome | None


def serve(request: ServeRequest, on_progress: OnProgress = ignore) -> Service:
    """Simulate a service whose requests arrive over time.

    1. Check the request, and compile the machine that decodes and the one that reads prompts.
    2. Find the capacity of a replica: the rate at which requests are served if some always wait.
    3. Determine the number of replicas and the arrival times of random requests.
    4. Simulate the service, unless random requests arrive faster than they can be served.
    5. Collect the result.

    Args:
        request: The options of the simulation.
        on_progress: Called with (requests served, total, current activity).

    Raises:
        BadInput: Something named is missing or cannot be used. A subclass says what.
        DoesNotFit: The model, or the longest request, does not fit.
    """
    prepared_serve = prepare_serve(request)
    total = len(prepared_serve.workload)
    on_progress(0, total, "compiling")
    decode = _machine(prepared_serve, prepared_serve.decode)
    drafts = _drafts(prepared_serve, decode)
    with prefill_errors(request):
        prefill = None if prepared_serve.prefill is None else _machine(prepared_serve, prepared_serve.prefill)
    _check_room(prepared_serve.workload, decode.costs)
    max_users = _max_users(
        request.batches.max_users, prepared_serve.workload, decode.costs, shares_prefixes=request.batches.prefix_cache
    )
    simulate_one = _policy(prepared_serve, decode, prefill, max_users, drafts)
    on_progress(0, total, "capacity")
    replica_capacity = capacity_requests_per_s(
        prepared_serve.workload, max_users, lambda workload: simulate_one(workload, on_done=_silent)
    )
    replicas = _replicas(prepared_serve, decode, replica_capacity)
    capacity = replicas * replica_capacity
    workload = prepared_serve.workload
    if not prepared_serve.has_times:
        workload = _with_arrival_times(prepared_serve, decode, capacity, replicas, simulate_one)
    simulate = simulate_one
    if replicas > 1:
        make_machine = partial(ContinuousMachine, **_continuous(prepared_serve, decode, prefill, max_users, drafts))
        simulate = partial(
            simulate_replicas,
            replicas=replicas,
            least_loaded=request.batches.dispatch == LEAST_LOADED,
            make_machine=make_machine,
        )
    rate = workload.rate_per_s
    offered = rate / capacity if math.isfinite(rate) else None
    is_stable = offered is not None and (offered < 1 or workload.in_flight is not None)
    outcome = None
    if is_stable or offered is None or prepared_serve.has_times:
        outcome = simulate(workload, on_done=lambda done_count, count: on_progress(done_count, count, SERVED))
    on_progress(total, total, "")
    result = ServeResult(
        inputs=_inputs(prepared_serve, decode, max_users, replicas),
        replicas=replicas,
        model=decode.model,
        machine=decode.result,
        prefill_machine=None if prefill is None else prefill.result,
        kv_transfer=None if prefill is None else kv_transfer(prepared_serve, decode, prefill),
        drafts=decode.drafts,
        requests=RequestsResult(
            count=total,
            arrivals=str(request.arrivals),
            rate_of_users=prepared_serve.rate_of_users,
            rate_per_s=rate if math.isfinite(rate) else None,
            prompt_tokens=float(workload.prompt_tokens.mean()),
            new_tokens=float(workload.new_tokens.mean()),
            in_flight=workload.in_flight,
        ),
        load=LoadResult(
            capacity_requests_per_s=capacity,
            offered=offered,
            stable=is_stable,
            stable_requests_per_s=STABLE_LOAD * capacity,
            replicas_needed=None if offered is None else _stable_replicas(rate, replica_capacity),
        ),
        served=None if outcome is None else served_result(prepared_serve, outcome, decode, prefill, max_users),
    )
    return Service(result=result, outcome=outcome)


def _replicas(prepared_serve: PreparedServe, decode: ServingMachine, capacity: float) -> int:
    """Return the number of replicas (equal machines that share the requests).

    If it is not requested, it is the minimum number that has room for the requested users. If the
    request names no users, it is the minimum number at which the queue stays short.

    Args:
        prepared_serve: The serving request.
        decode: One replica.
        capacity: Requests per second that one replica can serve.
    """
    request = prepared_serve.request
    if request.base.replicas is not None:
        return request.base.replicas
    if request.base.serving.users is not None:
        return math.ceil(request.base.serving.users / decode.result.kv_capacity_users)
    return _stable_replicas(request.traffic.rate or prepared_serve.workload.rate_per_s, capacity)


def _stable_replicas(rate: float, capacity: float) -> int:
    """Return the minimum number of replicas (equal machines) at which the queue stays short.

    The load of each replica, which is arrivals relative to capacity, is at most `STABLE_LOAD`. The
    result is 1 if all requests arrive at once.

    Args:
        rate: Arrivals per second.
        capacity: Requests per second that one replica can serve.
    """
    return max(1, math.ceil(round(rate / capacity / STABLE_LOAD, 9))) if math.isfinite(rate) else 1


def _with_arrival_times(
    prepared_serve: PreparedServe, decode: ServingMachine, capacity: float, replicas: int, simulate_one: Simulate
) -> Workload:
    """Return random requests with arrival times at the requested rate.

    The first of these rules that applies determines the rate:

    1. With ``--rate``, it is given.
    2. With ``--users`` and without ``--load``, it is the rate of a closed loop, in which each user
       sends the next request when an answer ends. Requests with constant arrivals are simulated as
       such a loop, except in static batches.
    3. Otherwise it is a fraction of the capacity, given by ``--load`` or by default.

    Args:
        prepared_serve: The serving request.
        decode: One replica.
        capacity: Requests per second that all replicas can serve.
        replicas: Number of replicas.
        simulate_one: Simulates one replica.
    """
    request, users = prepared_serve.request, prepared_serve.rate_of_users
    if request.traffic.rate is not None:
        return prepared_serve.workload.at_rate(request.traffic.rate)
    if users is None:
        return prepared_serve.workload.at_rate(prepared_serve.load * capacity)
    rate = operating_point(decode.deployment, users, replicas).requests_per_s
    if request.batches.batching == STATIC:
        return prepared_serve.workload.at_rate(rate)
    replica_users = math.ceil(users / replicas)
    replica_rate = closed_loop_requests_per_s(
        prepared_serve.workload, replica_users, rate * replica_users / users, partial(simulate_one, on_done=_silent)
    )
    rate = replica_rate * users / replica_users
    workload = prepared_serve.workload.at_rate(rate)
    return replace(workload, in_flight=users) if request.arrivals == CONSTANT else workload


def _silent(done_requests: int, total_requests: int) -> None:
    """Do nothing. The simulations that find the capacity report their progress to this function."""


def _machine(prepared_serve: PreparedServe, placement: Placement) -> ServingMachine:
    """Compile and time the passes of a checked request, on wafers or GPUs."""
    tokens = math.ceil(prepared_serve.workload.prompt_tokens.mean() + prepared_serve.workload.new_tokens.mean())
    if isinstance(placement, PreparedGpuEstimate):
        return gpu_machine(placement, prepared_serve.context, tokens, prepared_serve.request.draft_tokens)
    return wafer_machine(placement, tokens, prepared_serve.request.draft_tokens)


def _drafts(prepared_serve: PreparedServe, decode: ServingMachine) -> Drafts | None:
    """Return how often drafts are accepted in a simulation, drawn at random.

    Returns:
        The drafts. None if there are none, or if they would not increase the speed.
    """
    acceptance = prepared_serve.decode.acceptance
    if acceptance is None or decode.drafts is None or not decode.drafts.draft_tokens:
        return None
    return drawn_drafts(acceptance, decode.drafts.draft_tokens, prepared_serve.request.traffic.seed)


def _policy(
    prepared_serve: PreparedServe,
    decode: ServingMachine,
    prefill: ServingMachine | None,
    max_users: int,
    drafts: Drafts | None,
) -> Simulate:
    """Return a function that simulates one replica, with continuous or static batching.

    Args:
        prepared_serve: The serving request.
        decode: The machine that decodes.
        prefill: The machine that reads prompts, if it is separate.
        max_users: Maximum number of users at a time.
        drafts: Acceptance of drafts, or None.
    """
    request = prepared_serve.request
    if request.batches.batching == STATIC:
        wait = math.inf if request.batches.batch_wait is None else request.batches.batch_wait
        policy = StaticPolicy(batch_slots=max_users, longest_wait_s=wait)
        return partial(simulate_static, costs=decode.costs, policy=policy, drafts=drafts)
    return partial(simulate_continuous, **_continuous(prepared_serve, decode, prefill, max_users, drafts))


def _continuous(
    prepared_serve: PreparedServe,
    decode: ServingMachine,
    prefill: ServingMachine | None,
    max_users: int,
    drafts: Drafts | None,
) -> dict[str, Any]:
    """Return the keyword arguments for `simulate_continuous`, which uses continuous batching.

    Args:
        prepared_serve: The serving request.
        decode: The machine that decodes.
        prefill: The machine that reads prompts, if it is separate.
        max_users: Maximum number of users at a time.
        drafts: Acceptance of drafts, or None.
    """
    request, costs = prepared_serve.request, decode.costs
    chunk = request.batches.chunk or (None if costs.prompts_fill_gaps else MAX_BATCHED_TOKENS)
    policy = ContinuousPolicy(max_users=max_users, prompt_tokens=chunk, prefix_cache=request.batches.prefix_cache)
    machine = None if prefill is None else _prefill_machine(prefill, kv_transfer(prepared_serve, decode, prefill))
    return {"costs": costs, "policy": policy, "prefill": machine, "drafts": drafts}


def _prefill_machine(prefill: ServingMachine, transfer: KvTransferResult) -> PrefillMachine:
    """Return the machine that reads prompts, with the time to send a KV cache from it."""
    return PrefillMachine(
        costs=prefill.costs,
        transfer_s_per_token=transfer.bytes_per_token / transfer.bytes_per_s,
        transfer_s=transfer.latency_s,
    )


def _check_room(workload: Workload, costs: PassCosts) -> None:
    """Check that the KV cache of the longest request fits while no other request is served.

    Raises:
        DoesNotFit: The KV cache is too large.
    """
    slots = costs.room_tokens(workload.most_tokens)
    if slots > costs.kv_capacity_tokens:
        message = (
            f"the KV cache of the longest request is too large: {workload.most_tokens:,} tokens need {slots:,} "
            f"slots, but there is room for {costs.kv_capacity_tokens:,}; give more wafers or GPUs, or shorter requests"
        )
        raise DoesNotFit(message)


def _max_users(max_users: int | None, workload: Workload, costs: PassCosts, *, shares_prefixes: bool) -> int:
    """Return the maximum number of users that a replica serves at the same time.

    Args:
        max_users: Requested number. None for the maximum number of shortest requests whose KV
            caches fit.
        workload: The requests.
        costs: Costs of passes, and the capacity of the KV cache.
        shares_prefixes: Whether cached prefixes are shared, so that they need room only once.

    Raises:
        BadInput: The requested number exceeds the KV cache, even for the shortest requests, or the
            number of users that passes support.
    """
    block, prefix_tokens = costs.kv_block_tokens, workload.prefix_tokens if shares_prefixes else 0
    own_tokens = int((workload.prompt_tokens + workload.new_tokens - prefix_tokens // block * block).min())
    min_slots, room = costs.room_tokens(own_tokens), costs.kv_capacity_tokens
    limit = users_that_fit(costs, own_tokens)
    if max_users is not None and max_users > limit:
        message = (
            f"--max-users {max_users}: caches have room for {room:,} tokens, a request needs at least {min_slots:,}, "
            f"and at most {costs.max_users:,} users are served at a time; give at most {limit}, or more wafers or GPUs"
        )
        raise BadInput(message)
    return max_users or limit


def _inputs(prepared_serve: PreparedServe, decode: ServingMachine, max_users: int, replicas: int) -> dict[str, Any]:
    """Return the options of a serving request, with defaults filled in, for the result.

    The key is the name of the option without dashes.
    """
    request = prepared_serve.request
    always_given = {
        name: get_option(request, name)
        for name in ("burst", "length_cv", "batching", "prefill", "prefix_cache", "fast_share", "seed")
    }
    names = (
        "rate",
        "draft",
        "batch_wait",
        "chunk",
        "prefill_wafers",
        "prefill_gpus",
        "prefill_gpu",
        "prefill_stack",
        "prefill_wafer",
        "kv_bandwidth",
        "kv_latency",
        "prefill_mesh",
        "prefix_tokens",
        "ttft",
        "tpot",
    )
    values = {name: get_option(request, name) for name in names}
    optional_values = {name: str(v) if isinstance(v, Path) else v for name, v in values.items() if v is not None}
    if decode.drafts is not None:
        optional_values |= {"draft_tokens": decode.drafts.draft_tokens}
    load_sets_rate = not (prepared_serve.has_times or request.traffic.rate or prepared_serve.rate_of_users)
    load = {"load": prepared_serve.load} if load_sets_rate else {}
    replica_values = {} if replicas == 1 else {"replicas": replicas, "dispatch": request.batches.dispatch}
    return (
        {**decode.inputs, "arrivals": str(request.arrivals), "max_users": max_users}
        | replica_values
        | always_given
        | load
        | optional_values
    )
