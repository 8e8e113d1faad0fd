"""The claim about waiting for a batch: users that ride together, against users that join between two tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.serving.simulation.capacity import capacity_requests_per_s
from wse.serving.simulation.continuous.machine import simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.gpu_costs import GpuCosts
from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.statistics import distribution, first_token_s, gap_distribution, queueing_s
from wse.serving.simulation.workload import Workload, WorkloadOptions, draw_workload
from wse.studies.claims.claim import Curves, Finding, by_rule, figure
from wse.studies.claims.laboratory import Laboratory, with_type

MODEL: Final = "llama-3.1-70b"
GPU, GPUS, STACK, DTYPE = "h200", 8, "trtllm", "fp8"
LOADS: Final = (0.2, 0.4, 0.6, 0.8)
LOAD: Final = 0.6
SEATS: Final = 64
REQUESTS: Final = 3_000
CHUNK: Final = 512
TOKENS: Final = 1_024
"""Mean tokens of a prompt and of an answer; both are spread as much as they are long."""
STEPS: Final = 5.0
"""Steps of a decoded token up to which a wait is no bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waits:
    """Seconds that half of the users wait at most, for a seat and for a first token; the mean gap between tokens."""

    seat_s: float
    first_s: float
    gap_s: float


def waiting_for_the_bus(lab: Laboratory) -> Finding:
    """Claim 10: the wait for a seat with batches that ride together, and with users that join between two tokens."""
    costs = GpuCosts(server=lab.server(MODEL, GPU, GPUS, STACK, DTYPE), context=8 * TOKENS)
    options = WorkloadOptions(
        requests=REQUESTS, prompt_tokens=TOKENS, new_tokens=TOKENS, length_cv=1.0, context=8 * TOKENS
    )
    workload = draw_workload(options)
    bus, join = StaticPolicy(seats=SEATS), ContinuousPolicy(most_users=SEATS, prompt_tokens=CHUNK)
    policies: dict[str, Callable[[Workload], Outcome]] = {
        "static": lambda requests: simulate_static(requests, costs, bus),
        "continuous": lambda requests: simulate_continuous(requests, costs, join),
    }
    waits = {}
    for name, serve in policies.items():
        lab.on_work(f"{name} batches")
        capacity = capacity_requests_per_s(workload, SEATS, serve)
        waits[name] = {load: _waits(serve(workload.at_rate(load * capacity))) for load in LOADS}
    numbers = {}
    for name, by_load in waits.items():
        at = by_load[LOAD]
        numbers[f"seat_s_{name}"] = figure(at.seat_s, "s", f"half of the users wait for a seat at most, {name} batches")
        numbers[f"first_s_{name}"] = figure(at.first_s, "s", f"half have their first token after, {name} batches")
        numbers[f"gap_s_{name}"] = figure(at.gap_s, "s", f"between two tokens of a user, {name} batches")
    static, joined = waits["static"][LOAD], waits["continuous"][LOAD]
    return Finding(
        verdict=by_rule(
            holds=joined.seat_s > STEPS * joined.gap_s and static.seat_s > STEPS * static.gap_s,
            never=static.seat_s <= STEPS * static.gap_s,
        ),
        answer=f"Where {SEATS} users ride together to the end, half of them wait {static.seat_s:.0f} s for a seat at a "
        f"load of {LOAD:g}, {static.seat_s / static.gap_s:,.0f} tokens of the others; where users join between two "
        f"tokens {1e3 * joined.seat_s:.0f} ms, {joined.seat_s / joined.gap_s:.1f} tokens.",
        numbers=numbers,
        confidence="high",
        reason=f"the same arrivals through both, event by event, on {GPUS} {GPU} with {with_type(MODEL, DTYPE)}; the "
        "simulation agrees "
        "with closed forms of queues",
        curves=Curves(
            x="load",
            y="seconds that half of the users wait for a seat",
            lines={
                f"{name} batches": tuple((load, at.seat_s) for load, at in by_load.items())
                for name, by_load in waits.items()
            },
        ),
    )


def _waits(outcome: Outcome) -> _Waits:
    gaps = gap_distribution(outcome)
    assert gaps is not None  # answers have several tokens
    return _Waits(
        seat_s=distribution(queueing_s(outcome)).p50, first_s=distribution(first_token_s(outcome)).p50, gap_s=gaps.mean
    )
