"""The combinations of a placement that can be: its drafts, users and tiers on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wse.comparison.compare.curve.machine import Machine, most_users_at
from wse.comparison.scenario.form import MOST, DraftForm
from wse.comparison.scenario.machine import Drafted
from wse.comparison.scenario.placement import Placement
from wse.comparison.scenario.result import CombinationResult, PointResult, PredictionResult, TiersResult
from wse.comparison.scenario.served import arrived_at
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.report.terminal import plural
from wse.studies.estimate.gpus import batch_sizes


def combinations_on(
    placement: Placement,
    drafted: Callable[[DraftForm], Drafted],
    ttft_s: Callable[[Machine, int], float],
    facts: dict[str, Any],
) -> tuple[CombinationResult, ...]:
    """The combinations of a placement, with the reason where one cannot be.

    Args:
        placement: The placement.
        drafted: The machine with a draft.
        ttft_s: Seconds to the first token on it, as one of so many users meets it.
        facts: What all combinations have in common: model, parameters, dtype, chips.
    """
    return tuple(_combinations(placement, drafted, ttft_s, facts))


def _combinations(
    placement: Placement,
    drafted: Callable[[DraftForm], Drafted],
    ttft_s: Callable[[Machine, int], float],
    facts: dict[str, Any],
) -> Iterator[CombinationResult]:
    plain = drafted(DraftForm())
    for draft in placement.form.drafts:
        try:
            machine = plain if draft.acceptance is None else drafted(draft)
        except UnknownName:
            raise
        except (BadInput, DoesNotFit) as error:
            for users in placement.users:
                yield placement.combination(draft, users, ruled_out_by=(str(error),), **facts)
            continue
        curve = _curve(machine.machine)
        for users in placement.users:
            yield _combination(placement, draft, users, plain, machine, curve, ttft_s, facts)


def _combination(
    placement: Placement,
    draft: DraftForm,
    users: int | str,
    plain: Drafted,
    drafted: Drafted,
    curve: tuple[PointResult, ...],
    ttft_s: Callable[[Machine, int], float],
    facts: dict[str, Any],
) -> CombinationResult:
    tiers = placement.form.tiers
    shown = plain if tiers is not None and tiers.drafts == "fast" else drafted
    machine = shown.machine
    batch = machine.most if users == MOST else -(-int(users) // machine.users_per_batch)
    if batch > machine.most:
        reason = f"caches: room for {plural(machine.most * machine.users_per_batch, 'user')} of {users:,}"
        return placement.combination(draft, users, ruled_out_by=(reason,), **facts)
    found = {} if tiers is None else {"tiers": _tiers(machine, drafted.machine, batch, tiers.speed_up)}
    prediction = _prediction(shown, batch, ttft_s(machine, batch))
    arrived = None
    if placement.form.arrivals is not None and not draft.tree:
        counts = [prediction.users] if tiers is None else [found["tiers"].ordinary_users, found["tiers"].fast_users]
        drafts = [DraftForm() if tiers is not None and tiers.drafts == "fast" else draft, draft]
        arrived = arrived_at(placement, list(zip(drafts, counts, strict=False)))
    return placement.combination(draft, users, prediction=prediction, arrived=arrived, curve=curve, **facts, **found)


def _prediction(drafted: Drafted, batch: int, ttft_s: float) -> PredictionResult:
    machine = drafted.machine
    service = machine.service(batch)
    low, high = service.cost.range or (service.cost.value, service.cost.value)
    return PredictionResult(
        chips=machine.chips,
        users=batch * machine.users_per_batch,
        most_users=machine.most * machine.users_per_batch,
        tokens_per_s_per_user=service.tokens_per_s_per_user,
        tokens_per_s=service.tokens_per_s,
        exact=service.exact,
        ttft_s=ttft_s,
        usd_per_million_tokens=service.cost.value,
        usd_per_million_tokens_low=low,
        usd_per_million_tokens_high=high,
        joules_per_token=service.energy.value,
        speculation=None if drafted.steps is None else drafted.steps(batch).result,
        grade=drafted.grade,
    )


def _tiers(ordinary: Machine, fast: Machine, batch: int, speed_up: float) -> TiersResult:
    """An ordinary tier of a number of users or streams, and the largest fast one that is so many times as fast."""
    slow = ordinary.service(batch)
    found = most_users_at(fast, speed_up * slow.tokens_per_s_per_user)
    few = 1 if found is None else found
    quick = fast.service(few)
    return TiersResult(
        ordinary_users=batch * ordinary.users_per_batch,
        ordinary_tokens_per_s_per_user=slow.tokens_per_s_per_user,
        ordinary_usd_per_million_tokens=slow.cost.value,
        fast_users=few * fast.users_per_batch,
        fast_tokens_per_s_per_user=quick.tokens_per_s_per_user,
        fast_usd_per_million_tokens=quick.cost.value,
        speed_up=quick.tokens_per_s_per_user / slow.tokens_per_s_per_user,
        cost_ratio=quick.cost.value / slow.cost.value,
        reached=found is not None,
    )


def _curve(machine: Machine) -> tuple[PointResult, ...]:
    """Rates and dollars as users vary."""
    services = {batch: machine.service(batch) for batch in batch_sizes(machine.most, 1)}
    return tuple(
        PointResult(
            users=batch * machine.users_per_batch,
            tokens_per_s_per_user=service.tokens_per_s_per_user,
            usd_per_million_tokens=service.cost.value,
        )
        for batch, service in services.items()
    )
