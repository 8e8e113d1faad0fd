"""The claim about waiting for a batch: static versus continuous batching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.serving.simulation.capacity import capacity_requests_per_s
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.costs.gpu_costs import GpuCosts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.static import simulate_static
from wse.serving.simulation.statistics import distribution, first_token_s, gap_distribution, queueing_s
from wse.serving.simulation.workload import Workload, WorkloadOptions, draw_workload
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.serving import DTYPE, GPUS, gpu_server
from wse.studies.claims.shared_computations import SharedComputations, with_type

MODEL: Final = "llama-3.1-70b"
GPU: Final = "h200"
LOADS: Final = (0.2, 0.4, 0.6, 0.8)
LOAD: Final = 0.6
SLOTS: Final = 64
REQUESTS: Final = 3_000
CHUNK: Final = 512
TOKENS: Final = 1_024
"""Mean number of tokens in a prompt and in an answer. Standard deviations equal the means."""
STEPS: Final = 5.0
"""Longest acceptable wait for a batch slot, as a multiple of the time between two tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waits:
    """Waiting times of the users in a simulation, in seconds.

    Attributes:
        slot_s: Median time from a request's arrival until it joins a batch.
        first_token_s: Median time from a request's arrival to its first token.
        gap_s: Mean time between consecutive tokens of a user.
    """

    slot_s: float
    first_token_s: float
    gap_s: float


def wait_for_batch(shared_computations: SharedComputations) -> Finding:
    """Decide whether a request waits for the next batch like a passenger for a bus (claim 10).

    The time that a request waits before joining a batch is simulated in two ways. With static
    batching, all users of a batch start and end together. With continuous batching, users can join
    between any two tokens.
    """
    server = gpu_server(MODEL, GPU)
    costs = GpuCosts(server=server, context=8 * TOKENS)
    options = WorkloadOptions(
        requests=REQUESTS, prompt_tokens=TOKENS, new_tokens=TOKENS, prompt_cv=1.0, answer_cv=1.0, context=8 * TOKENS
    )
    workload = draw_workload(options)
    continuous_policy = ContinuousPolicy(max_users=SLOTS, prompt_tokens=CHUNK)
    policies: dict[str, Callable[[Workload], SimulationOutcome]] = {
        "static": lambda requests: simulate_static(requests, costs, batch_slots=SLOTS),
        "continuous": lambda requests: simulate_continuous(requests, costs, continuous_policy),
    }
    waits = {}
    for name, serve in policies.items():
        shared_computations.on_work(f"{name} batches")
        capacity = capacity_requests_per_s(workload, SLOTS, serve)
        waits[name] = {load: _waits(serve(workload.at_rate(load * capacity))) for load in LOADS}
    builder = FindingBuilder("wait_for_batch", model=with_type(MODEL, DTYPE), machine=f"{GPUS} {GPU}")
    for name, by_load in waits.items():
        wait = by_load[LOAD]
        builder.add("seat_s_{policy}", wait.slot_s, policy=name)
        builder.add("first_s_{policy}", wait.first_token_s, policy=name)
        builder.add("gap_s_{policy}", wait.gap_s, policy=name)
    static, continuous = waits["static"][LOAD], waits["continuous"][LOAD]
    # The error of the timing model scales arrivals and times alike, since a load is relative to the capacity.
    time_ratios = shared_computations.gpu_times(server)
    has_long_wait = {
        name: by_load[LOAD].slot_s * time_ratios > STEPS * by_load[LOAD].gap_s * time_ratios
        for name, by_load in waits.items()
    }
    return builder.finding(
        by_rule(holds=has_long_wait["continuous"] & has_long_wait["static"], never=~has_long_wait["static"]),
        {
            f"{name} batching": tuple((load, wait.slot_s) for load, wait in by_load.items())
            for name, by_load in waits.items()
        },
        slots=SLOTS,
        load=LOAD,
        static_tokens=static.slot_s / static.gap_s,
        continuous_ms=1e3 * continuous.slot_s,
        continuous_tokens=continuous.slot_s / continuous.gap_s,
    )


def _waits(outcome: SimulationOutcome) -> _Waits:
    """Return users' waiting times in a serving simulation."""
    gaps = gap_distribution(outcome)
    assert gaps is not None  # answers have several tokens
    return _Waits(
        slot_s=distribution(queueing_s(outcome)).p50,
        first_token_s=distribution(first_token_s(outcome)).p50,
        gap_s=gaps.mean,
    )
