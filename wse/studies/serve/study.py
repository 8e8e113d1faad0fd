"""The study of ``wse serve-sim``: compile, find the load, and serve requests event by event where the queue is stable.

Requests from a file are served whatever their load, since there are only so many.
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
from wse.serving.simulation.capacity import capacity_requests_per_s, closed_loop_requests_per_s
from wse.serving.simulation.continuous.machine import ContinuousMachine, simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy, PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.pass_costs import PassCosts, users_that_fit
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.replicas import simulate_replicas
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.workload import CONSTANT, Workload
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.options.option import get_option
from wse.studies.serve.machines.drafts import drawn_drafts
from wse.studies.serve.machines.gpus import gpu_machine
from wse.studies.serve.machines.kv_transfer import KvTransferResult, kv_transfer
from wse.studies.serve.machines.machine import Machine
from wse.studies.serve.machines.wafers import wafer_machine
from wse.studies.serve.options import LEAST_LOADED, STATIC
from wse.studies.serve.prefill_machine import Placement, prefill_errors
from wse.studies.serve.prepare import PreparedServe, prepare_serve
from wse.studies.serve.request import ServeRequest
from wse.studies.serve.result import STABLE_LOAD, LoadResult, RequestsResult, ServeResult
from wse.studies.serve.served import served_result

SERVED: Final = "requests"


class Simulate(Protocol):
    """Serves the requests of a workload under a policy."""

    def __call__(self, workload: Workload, *, on_done: OnDone) -> Outcome:
        """Return what happened to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A result with what it was made of: the outcome, where requests were served."""

    result: ServeResult
    outcome: Outcome | None


def serve(request: ServeRequest, on_progress: OnProgress = ignore) -> Service:
    """Serve the requests of a ServeRequest.

    Args:
        request: What was asked.
        on_progress: Called with (requests served, all, what is done).

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: the model, or the longest request, does not fit.
    """
    prepared = prepare_serve(request)
    total = len(prepared.workload)
    on_progress(0, total, "compiling")
    decode = _machine(prepared, prepared.decode)
    drafts = _drafts(prepared, decode)
    with prefill_errors(request):
        prefill = None if prepared.prefill is None else _machine(prepared, prepared.prefill)
    _check_room(prepared.workload, decode.costs)
    seats = _seats(
        request.batches.max_users, prepared.workload, decode.costs, shares_prefixes=request.batches.prefix_cache
    )
    simulate_one = _policy(prepared, decode, prefill, seats, drafts)
    on_progress(0, total, "capacity")
    of_one = capacity_requests_per_s(prepared.workload, seats, lambda held: simulate_one(held, on_done=_silent))
    replicas = _replicas(prepared, decode, of_one)
    capacity = replicas * of_one
    workload = prepared.workload
    if not prepared.has_times:
        workload = _timed(prepared, decode, capacity, replicas, simulate_one)
    simulate = simulate_one
    if replicas > 1:
        make_machine = partial(ContinuousMachine, **_continuous(prepared, decode, prefill, seats, drafts))
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
    if is_stable or offered is None or prepared.has_times:
        outcome = simulate(workload, on_done=lambda done, count: on_progress(done, count, SERVED))
    on_progress(total, total, "")
    result = ServeResult(
        inputs=_inputs(prepared, decode, seats, replicas),
        replicas=replicas,
        model=decode.model,
        machine=decode.result,
        prefill_machine=None if prefill is None else prefill.result,
        kv_transfer=None if prefill is None else kv_transfer(prepared, decode, prefill),
        drafts=decode.drafts,
        requests=RequestsResult(
            count=total,
            arrivals=str(request.traffic.arrivals),
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
            replicas_needed=None if offered is None else _stable_replicas(rate, of_one),
        ),
        served=None if outcome is None else served_result(prepared, outcome, decode, prefill, seats),
    )
    return Service(result=result, outcome=outcome)


def _replicas(prepared: PreparedServe, decode: Machine, capacity: float) -> int:
    """Return the replicas: those requested, or the fewest with room for the users, or with a stable queue.

    Args:
        prepared: The request.
        decode: One replica.
        capacity: Requests per second that one replica can serve.
    """
    request = prepared.request
    if request.base.replicas is not None:
        return request.base.replicas
    if request.base.serving.users is not None:
        return math.ceil(request.base.serving.users / decode.result.kv_capacity_users)
    return _stable_replicas(request.traffic.rate or prepared.workload.rate_per_s, capacity)


def _stable_replicas(rate: float, capacity: float) -> int:
    """Return the fewest replicas that serve a rate with `STABLE_LOAD` at most; 1 where all requests come at once."""
    return max(1, math.ceil(round(rate / capacity / STABLE_LOAD, 9))) if math.isfinite(rate) else 1


def _timed(
    prepared: PreparedServe, decode: Machine, capacity: float, replicas: int, simulate_one: Simulate
) -> Workload:
    """Return drawn requests at the rate that is requested, that --users make, or that is a part of capacity.

    The rate of --users is that of a closed loop, in which each request begins when another ends. Requests that come
    evenly are that loop.
    """
    request, users = prepared.request, prepared.request.base.serving.users
    if request.traffic.rate is not None:
        return prepared.workload.at_rate(request.traffic.rate)
    if users is None or request.traffic.load is not None:
        return prepared.workload.at_rate(prepared.load * capacity)
    rate = operating_point(decode.deployment, users, replicas).requests_per_s
    if request.batches.batching == STATIC:
        return prepared.workload.at_rate(rate)
    of_one = math.ceil(users / replicas)
    each = closed_loop_requests_per_s(
        prepared.workload, of_one, rate * of_one / users, partial(simulate_one, on_done=_silent)
    )
    rate = each * users / of_one
    workload = prepared.workload.at_rate(rate)
    return replace(workload, in_flight=users) if request.traffic.arrivals == CONSTANT else workload


def _silent(done: int, total: int) -> None:
    """Tell nothing of the run that finds the capacity."""


def _machine(prepared: PreparedServe, placement: Placement) -> Machine:
    """Return the machine of a placement, ready to serve."""
    tokens = math.ceil(prepared.workload.prompt_tokens.mean() + prepared.workload.new_tokens.mean())
    if isinstance(placement, PreparedGpuEstimate):
        return gpu_machine(placement, prepared.context, tokens, prepared.request.draft_tokens)
    return wafer_machine(placement, tokens, prepared.request.draft_tokens)


def _drafts(prepared: PreparedServe, decode: Machine) -> Drafts | None:
    """Return the drafts that are drawn; None where there are none, or none gains."""
    acceptance = prepared.decode.acceptance
    if acceptance is None or decode.drafts is None or not decode.drafts.draft_tokens:
        return None
    return drawn_drafts(acceptance, decode.drafts.draft_tokens, prepared.request.traffic.seed)


def _policy(
    prepared: PreparedServe, decode: Machine, prefill: Machine | None, seats: int, drafts: Drafts | None
) -> Simulate:
    """Return the function that serves a workload as the request asks for."""
    request = prepared.request
    if request.batches.batching == STATIC:
        wait = math.inf if request.batches.batch_wait is None else request.batches.batch_wait
        bus = StaticPolicy(seats=seats, longest_wait_s=wait)
        return partial(simulate_static, costs=decode.costs, policy=bus, drafts=drafts)
    return partial(simulate_continuous, **_continuous(prepared, decode, prefill, seats, drafts))


def _continuous(
    prepared: PreparedServe, decode: Machine, prefill: Machine | None, seats: int, drafts: Drafts | None
) -> dict[str, Any]:
    """Return the arguments of a machine with continuous batching."""
    request, costs = prepared.request, decode.costs
    chunk = request.batches.chunk or (None if costs.prompts_fill_gaps else MAX_BATCHED_TOKENS)
    policy = ContinuousPolicy(most_users=seats, prompt_tokens=chunk, prefix_cache=request.batches.prefix_cache)
    machine = None if prefill is None else _prefill_machine(prefill, kv_transfer(prepared, decode, prefill))
    return {"costs": costs, "policy": policy, "prefill": machine, "drafts": drafts}


def _prefill_machine(prefill: Machine, moved: KvTransferResult) -> PrefillMachine:
    return PrefillMachine(
        costs=prefill.costs,
        transfer_s_per_token=moved.bytes_per_token / moved.bytes_per_s,
        transfer_s=moved.latency_s,
    )


def _check_room(workload: Workload, costs: PassCosts) -> None:
    """Raise DoesNotFit for requests whose cache has no room even alone."""
    longest = costs.room_tokens(workload.most_tokens)
    if longest > costs.kv_capacity_tokens:
        message = (
            f"the KV cache of the longest request is too large: {workload.most_tokens:,} tokens take {longest:,} "
            f"slots, and there is room for {costs.kv_capacity_tokens:,}; give more wafers or GPUs, or shorter requests"
        )
        raise DoesNotFit(message)


def _seats(wanted: int | None, workload: Workload, costs: PassCosts, *, shares_prefixes: bool) -> int:
    """Users that are served at a time, by default as many as there may be.

    Raises:
        BadInput: more are ``wanted`` than caches of the shortest requests have room for, beside prefixes that are kept
            where requests share them, or than passes take.
    """
    block, kept = costs.kv_block_tokens, workload.prefix_tokens if shares_prefixes else 0
    own_tokens = int((workload.prompt_tokens + workload.new_tokens - kept // block * block).min())
    least, room = costs.room_tokens(own_tokens), costs.kv_capacity_tokens
    most = users_that_fit(costs, own_tokens)
    if wanted is not None and wanted > most:
        message = (
            f"--max-users {wanted}: caches have room for {room:,} tokens, a request takes at least {least:,}, and at "
            f"most {costs.most_users:,} users are served at a time; give at most {most}, or more wafers or GPUs"
        )
        raise BadInput(message)
    return wanted or most


def _inputs(prepared: PreparedServe, decode: Machine, seats: int, replicas: int) -> dict[str, Any]:
    """Return the options of a request by name, defaults filled in."""
    request = prepared.request
    own = {
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
    given = {name: str(v) if isinstance(v, Path) else v for name, v in values.items() if v is not None}
    if decode.drafts is not None:
        given |= {"draft_tokens": decode.drafts.draft_tokens}
    load = {} if request.traffic.rate is not None or prepared.has_times else {"load": prepared.load}
    shared = {} if replicas == 1 else {"replicas": replicas, "dispatch": request.batches.dispatch}
    return (
        {**decode.inputs, "arrivals": str(request.traffic.arrivals), "max_users": seats} | shared | own | load | given
    )
