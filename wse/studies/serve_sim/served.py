"""Statistics of a finished simulation: waiting times, machine utilisation, energy and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from wse.arrays import Bools
from wse.hardware.number import SourcedNumber, weakest
from wse.serving.cost import joules_per_token, usd_per_million_tokens
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.statistics import (
    distribution,
    first_token_s,
    gap_distribution,
    in_time,
    per_token_s,
    queueing_s,
)
from wse.serving.simulation.workload import FAST, NORMAL
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.machines.service_machines import ServiceMachines
from wse.studies.serve_sim.options import PromisedTimes
from wse.studies.serve_sim.result import (
    AmountResult,
    GoodputResult,
    LittleResult,
    PrefixResult,
    ServedResult,
    TierUseResult,
    UseResult,
    WaitsResult,
)

TIERS: Final = {"fast": FAST, "normal": NORMAL}


def served_result(machines: ServiceMachines, outcome: SimulationOutcome) -> ServedResult:
    """Compute latencies, utilisation, energy and cost from a finished serving simulation.

    Args:
        machines: The machines of the service.
        outcome: When each simulated request was admitted, answered and finished.
    """
    request, workload, decode = machines.prepared.request, outcome.workload, machines.decode
    tokens_per_s = float(workload.new_tokens.sum()) / outcome.makespan_s
    replica_s = outcome.replicas * outcome.makespan_s
    tiers = {name: workload.tier == tier for name, tier in TIERS.items()}
    requests_in_system, by_law = outcome.little
    power = _combine(machines, outcome.replicas, attrgetter("power_w"))
    price = _combine(machines, outcome.replicas, attrgetter("usd_per_hour"))
    return ServedResult(
        all=_waits(outcome, np.ones(len(workload), bool)),
        tiers={name: _waits(outcome, in_tier) for name, in_tier in tiers.items() if 0 < in_tier.sum() < len(workload)},
        gaps=gap_distribution(outcome),
        tokens_per_pass=_tokens_per_pass(outcome) if decode.drafts is not None and decode.drafts.draft_tokens else None,
        makespan_s=outcome.makespan_s,
        tokens_per_s=tokens_per_s,
        goodput=_goodput(request.promised, outcome),
        use=UseResult(
            busy=outcome.busy_s / replica_s,
            slowest_stage=outcome.work_s / replica_s,
            prefill_busy=None if machines.prefill is None else outcome.prefill_busy_s / replica_s,
            in_flight=float((outcome.end_s - outcome.workload.arrival_s).sum()) / outcome.makespan_s,
            users=outcome.user_s / outcome.makespan_s,
            most_users=outcome.replicas * machines.max_users,
            kv=outcome.kv_token_s / (replica_s * decode.costs.kv_capacity_tokens),
        ),
        joules_per_token=_amount(power, lambda watts: joules_per_token(1, watts, tokens_per_s)),
        usd_per_million_tokens=_amount(price, lambda usd: usd_per_million_tokens(1, usd, tokens_per_s)),
        usd_per_hour=_amount(price, float),
        little=LittleResult(in_system=requests_in_system, by_law=by_law),
        prefix_cache=_prefix_result(outcome, decode) if request.keeps_prefixes else None,
    )


def _prefix_result(outcome: SimulationOutcome, decode: ServingMachine) -> PrefixResult:
    """Return how often prefixes of prompts were reused, and from which memory they came."""
    use, prompt_tokens = outcome.prefixes, int(outcome.workload.prompt_tokens.sum())
    new_tokens = prompt_tokens - use.known_tokens
    loaded_tokens = {tier.name: tokens for tier, tokens in zip(decode.kv_tiers, use.loaded_tokens, strict=True)}
    tokens_by_origin = {"cache": use.cached_tokens, **loaded_tokens, "recomputed": use.recomputed_tokens}
    replica_s = outcome.replicas * outcome.makespan_s
    simulated_tiers = [tier.simulated_tier for tier in decode.kv_tiers]
    counts = zip(simulated_tiers, use.loaded_tokens, use.loaded_states, use.parked_tokens, strict=True)
    tiers = tuple(
        TierUseResult(
            name=tier.name,
            loaded_tokens=load_count,
            parked_tokens=copy_count,
            load_share=(load_count * tier.s_per_token + state_count * tier.s_per_state) / replica_s,
            copy_share=copy_count * tier.s_per_token / replica_s,
        )
        for tier, load_count, state_count, copy_count in counts
    )
    return PrefixResult(
        hits=use.hits,
        saved_tokens=use.saved_tokens,
        saved_share=use.saved_tokens / prompt_tokens,
        token_shares={name: tokens / prompt_tokens for name, tokens in {**tokens_by_origin, "new": new_tokens}.items()},
        kv_tiers=tiers or None,
    )


def _tokens_per_pass(outcome: SimulationOutcome) -> float | None:
    """Return the mean number of tokens that a decode pass adds to an answer; None without passes.

    The number is above 1 if draft tokens are accepted. The first token of an answer is not counted,
    because it comes from prefill.
    """
    passes = float((outcome.gaps[:, 2] * outcome.gaps[:, 3]).sum())
    return float((outcome.workload.new_tokens - 1).sum()) / passes if passes else None


def _waits(outcome: SimulationOutcome, selected: Bools) -> WaitsResult:
    """Return the distributions of queueing delay, TTFT and TPOT over the selected requests.

    Args:
        outcome: The finished simulation.
        selected: Selected requests, bool ``[requests]``.
    """
    per_token = per_token_s(outcome)[selected]
    per_token = per_token[~np.isnan(per_token)]
    return WaitsResult(
        requests=int(selected.sum()),
        queueing=distribution(queueing_s(outcome)[selected]),
        ttft=distribution(first_token_s(outcome)[selected]),
        tpot=distribution(per_token) if len(per_token) else None,
    )


def _goodput(promised: PromisedTimes, outcome: SimulationOutcome) -> GoodputResult | None:
    """Return the requests served within the promised times; None if no times are promised."""
    if promised.ttft is None and promised.tpot is None:
        return None
    good = in_time(outcome, promised.ttft, promised.tpot)
    return GoodputResult(
        ttft_s=promised.ttft,
        tpot_s=promised.tpot,
        share=float(good.mean()),
        requests_per_s=float(good.sum()) / outcome.makespan_s,
        tokens_per_s=float(outcome.workload.new_tokens[good].sum()) / outcome.makespan_s,
    )


def _combine(
    machines: ServiceMachines, replicas: int, number_of: Callable[[ServingMachine], SourcedNumber | None]
) -> SourcedNumber | None:
    """Combine the power or the price of the decode and prefill machines of all replicas.

    Args:
        machines: The machines of a replica.
        replicas: Number of replicas.
        number_of: Function that returns the power or the price of a machine; None if unknown.

    Returns:
        The sum, or the maximum if both machines are parts of the same wafers. None if a number is
        unknown.
    """
    numbers = [number_of(machine) for machine in (machines.decode, machines.prefill) if machine is not None]
    known_numbers = [number for number in numbers if number is not None]
    if len(known_numbers) < len(numbers):
        return None
    if machines.prepared.shares_wafers:
        return max(known_numbers, key=lambda number: number.value).times(replicas)
    return _sum(known_numbers).times(replicas)


def _sum(numbers: Sequence[SourcedNumber]) -> SourcedNumber:
    """Add up numbers of the same unit, and also the bounds of their ranges.

    The evidence grade of the sum, which says how well it is known, is the weakest of all numbers.
    """
    return SourcedNumber(
        value=sum(number.value for number in numbers),
        unit=numbers[0].unit,
        grade=weakest(number.grade for number in numbers),
        source="; ".join(dict.fromkeys(number.source for number in numbers)),
        range=(sum(number.low for number in numbers), sum(number.high for number in numbers)),
    )


def _amount(number: SourcedNumber | None, convert: Callable[[float], float]) -> AmountResult | None:
    """Convert a number and its range to another unit, such as watts to joules per token.

    Args:
        number: The number with its range and source, or None if unknown.
        convert: Function that converts a value.
    """
    if number is None:
        return None
    low, value, high = map(convert, number.low_value_high)
    return AmountResult(value=value, range=(low, high), grade=number.grade, source=number.source)
