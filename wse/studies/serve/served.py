"""``served`` of a result: the statistics of an outcome, and what its tokens cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final

import numpy as np

from wse.arrays import F64, Bools
from wse.hardware.number import SourcedNumber, weakest
from wse.serving.cost import MILLION, SECONDS_PER_HOUR
from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.pass_costs import PassCosts
from wse.serving.simulation.statistics import (
    Distribution,
    distribution,
    first_token_s,
    gap_distribution,
    in_time,
    per_token_s,
    queueing_s,
)
from wse.serving.simulation.workload import FAST, NORMAL
from wse.studies.serve.machines.machine import Machine, times
from wse.studies.serve.prepare import PreparedServe
from wse.studies.serve.result import (
    AmountResult,
    DistributionResult,
    GoodputResult,
    LittleResult,
    PrefixResult,
    ServedResult,
    UseResult,
    WaitsResult,
)

TIERS: Final = {"fast": FAST, "normal": NORMAL}


def served_result(
    prepared: PreparedServe, outcome: Outcome, decode: Machine, prefill: Machine | None, seats: int
) -> ServedResult:
    """Return the statistics of an outcome."""
    request, workload = prepared.request, outcome.workload
    tokens_per_s = float(workload.new_tokens.sum()) / outcome.makespan_s
    replica_s = outcome.replicas * outcome.makespan_s
    tiers = {name: workload.tier == tier for name, tier in TIERS.items()}
    gaps = gap_distribution(outcome)
    held, by_law = outcome.little
    power, price = (
        None if amount is None else times(outcome.replicas, amount) for amount in _economy(prepared, decode, prefill)
    )
    return ServedResult(
        all=_waits(outcome, np.ones(len(workload), bool)),
        tiers={name: _waits(outcome, of_tier) for name, of_tier in tiers.items() if 0 < of_tier.sum() < len(workload)},
        gaps=None if gaps is None else _distribution(gaps),
        tokens_per_pass=_tokens_per_pass(outcome) if decode.drafts is not None and decode.drafts.draft_tokens else None,
        makespan_s=outcome.makespan_s,
        tokens_per_s=tokens_per_s,
        goodput=None
        if request.promised.ttft is None and request.promised.tpot is None
        else _goodput(prepared, outcome),
        use=UseResult(
            busy=outcome.busy_s / replica_s,
            slowest_stage=outcome.work_s / replica_s,
            prefill_busy=None if prefill is None else outcome.prefill_busy_s / replica_s,
            users=outcome.user_s / outcome.makespan_s,
            most_users=outcome.replicas * seats,
            kv=_kv_share(outcome, decode.costs),
        ),
        joules_per_token=_amount(power, lambda watts: watts / tokens_per_s),
        usd_per_million_tokens=_amount(price, lambda usd: usd / (SECONDS_PER_HOUR * tokens_per_s) * MILLION),
        usd_per_hour=_amount(price, float),
        little=LittleResult(in_system=held, by_law=by_law),
        prefix_cache=PrefixResult(hits=outcome.prefix_hits, saved_tokens=outcome.saved_tokens)
        if request.batches.prefix_cache
        else None,
    )


def _tokens_per_pass(outcome: Outcome) -> float | None:
    """Return the tokens of answers behind the first over passes of a user; None where there were none."""
    passes = float((outcome.gaps[:, 2] * outcome.gaps[:, 3]).sum())
    return float((outcome.workload.new_tokens - 1).sum()) / passes if passes else None


def _waits(outcome: Outcome, chosen: Bools) -> WaitsResult:
    """Return the waits of some requests."""
    per_token = per_token_s(outcome)[chosen]
    per_token = per_token[~np.isnan(per_token)]
    return WaitsResult(
        requests=int(chosen.sum()),
        queueing=_of(queueing_s(outcome)[chosen]),
        ttft=_of(first_token_s(outcome)[chosen]),
        tpot=_of(per_token) if len(per_token) else None,
    )


def _of(values: F64) -> DistributionResult:
    return _distribution(distribution(values))


def _distribution(values: Distribution) -> DistributionResult:
    return DistributionResult(**asdict(values))


def _goodput(prepared: PreparedServe, outcome: Outcome) -> GoodputResult:
    request = prepared.request
    good = in_time(outcome, request.promised.ttft, request.promised.tpot)
    return GoodputResult(
        ttft_s=request.promised.ttft,
        tpot_s=request.promised.tpot,
        share=float(good.mean()),
        requests_per_s=float(good.sum()) / outcome.makespan_s,
        tokens_per_s=float(outcome.workload.new_tokens[good].sum()) / outcome.makespan_s,
    )


def _kv_share(outcome: Outcome, costs: PassCosts) -> float:
    """Room that requests have taken, in tokens, × their time, over all room × the time of all."""
    tokens, first = np.unique(outcome.workload.prompt_tokens + outcome.workload.new_tokens, return_inverse=True)
    rooms = np.array([costs.room_tokens(length) for length in tokens.tolist()])
    taken = rooms[first] * (outcome.left_s - outcome.start_s)
    return float(taken.sum()) / (outcome.replicas * costs.kv_capacity_tokens * outcome.makespan_s)


def _economy(
    prepared: PreparedServe, decode: Machine, prefill: Machine | None
) -> tuple[SourcedNumber | None, SourcedNumber | None]:
    """Watts and dollars an hour of all systems; prompts on a part of the same wafers need no others."""
    machines = [decode] if prefill is None else [decode, prefill]
    powers, prices = [machine.power_w for machine in machines], [machine.usd_per_hour for machine in machines]
    return _together(prepared, powers), _together(prepared, prices)


def _together(prepared: PreparedServe, numbers: Sequence[SourcedNumber | None]) -> SourcedNumber | None:
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    return max(known, key=lambda number: number.value) if prepared.beside else _sum(known)


def _sum(numbers: Sequence[SourcedNumber]) -> SourcedNumber:
    """Numbers of one unit together, with their range and the weakest of their grades."""
    return SourcedNumber(
        value=sum(number.value for number in numbers),
        unit=numbers[0].unit,
        grade=weakest(number.grade for number in numbers),
        source="; ".join(dict.fromkeys(number.source for number in numbers)),
        range=(sum(number.low for number in numbers), sum(number.high for number in numbers)),
    )


def _amount(number: SourcedNumber | None, convert: Callable[[float], float]) -> AmountResult | None:
    """Return a converted number with its range, grade and source; None for None."""
    if number is None:
        return None
    low, value, high = map(convert, number.low_value_high)
    return AmountResult(value=value, range=(low, high), grade=number.grade, source=number.source)
