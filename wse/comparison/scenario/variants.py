"""The combinations of a placement that can be: its drafts, users and tiers on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from wse.comparison.scenario.form import MOST, DraftForm
from wse.comparison.scenario.machine import Drafted
from wse.comparison.scenario.placement import Placement
from wse.comparison.scenario.result import CombinationResult, PointResult, PredictionResult, TiersResult
from wse.comparison.scenario.served import arrived_at
from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.hardware.number import SourcedNumber
from wse.report.terminal import plural
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.serving.plan import saturating_users, users_at_speed
from wse.studies.results.operating_points import user_counts


def combinations_on(
    placement: Placement,
    drafted: Callable[[DraftForm], Drafted],
    beyond_s: float,
    facts: dict[str, Any],
) -> tuple[CombinationResult, ...]:
    """The combinations of a placement, with the reason where one cannot be.

    Args:
        placement: The placement.
        drafted: The machine with a draft.
        beyond_s: Seconds of the time to first token beyond the machine: network and service.
        facts: What all combinations have in common: model, parameters, dtype, chips.
    """
    return tuple(_combinations(placement, drafted, beyond_s, facts))


def _combinations(
    placement: Placement,
    drafted: Callable[[DraftForm], Drafted],
    beyond_s: float,
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
            yield _combination(placement, draft, users, plain, machine, curve, beyond_s, facts)


def _combination(
    placement: Placement,
    draft: DraftForm,
    users: int | str,
    plain: Drafted,
    drafted: Drafted,
    curve: tuple[PointResult, ...],
    beyond_s: float,
    facts: dict[str, Any],
) -> CombinationResult:
    tiers = placement.form.tiers
    shown = plain if tiers is not None and tiers.drafts == "fast" else drafted
    machine = shown.machine
    number = saturating_users(machine) if users == MOST else int(users)
    if number > machine.max_concurrency:
        reason = f"caches: room for {plural(machine.max_concurrency, 'user')} of {users:,}"
        return placement.combination(draft, users, ruled_out_by=(reason,), **facts)
    found = {} if tiers is None else {"tiers": _tiers(machine, drafted.machine, number, tiers.speed_up)}
    prediction = _prediction(shown, number, beyond_s)
    arrived = None
    if placement.form.arrivals is not None and not draft.tree:
        counts = [prediction.users] if tiers is None else [found["tiers"].ordinary_users, found["tiers"].fast_users]
        drafts = [DraftForm() if tiers is not None and tiers.drafts == "fast" else draft, draft]
        arrived = arrived_at(placement, list(zip(drafts, counts, strict=False)))
    return placement.combination(draft, users, prediction=prediction, arrived=arrived, curve=curve, **facts, **found)


def _prediction(drafted: Drafted, users: int, beyond_s: float) -> PredictionResult:
    machine = drafted.machine
    point = operating_point(machine, users)
    cost, energy = _cost(point), point.joules_per_token
    assert energy is not None  # machines of a scenario have a power
    return PredictionResult(
        chips=machine.chips,
        users=users,
        most_users=machine.max_concurrency,
        tokens_per_s_per_user=_speed(point),
        tokens_per_s=point.tokens_per_s,
        ttft_s=point.ttft_s + beyond_s,
        usd_per_million_tokens=cost.value,
        usd_per_million_tokens_low=cost.low,
        usd_per_million_tokens_high=cost.high,
        joules_per_token=energy.value,
        speculation=drafted.speculation(users),
        grade=drafted.grade,
    )


def _tiers(ordinary: Deployment, fast: Deployment, users: int, speed_up: float) -> TiersResult:
    """Return an ordinary tier of a number of users, and the largest fast tier with a multiple of its speed."""
    slow = operating_point(ordinary, users)
    found = users_at_speed(partial(operating_point, fast), saturating_users(fast), speed_up * _speed(slow))
    quick = operating_point(fast, max(1, found))
    return TiersResult(
        ordinary_users=users,
        ordinary_tokens_per_s_per_user=_speed(slow),
        ordinary_usd_per_million_tokens=_cost(slow).value,
        ordinary_usd_per_million_tokens_low=_cost(slow).low,
        ordinary_usd_per_million_tokens_high=_cost(slow).high,
        fast_users=quick.concurrency,
        fast_tokens_per_s_per_user=_speed(quick),
        fast_usd_per_million_tokens=_cost(quick).value,
        fast_usd_per_million_tokens_low=_cost(quick).low,
        fast_usd_per_million_tokens_high=_cost(quick).high,
        speed_up=_speed(quick) / _speed(slow),
        cost_ratio=_cost(quick).value / _cost(slow).value,
        reached=found > 0,
    )


def _curve(machine: Deployment) -> tuple[PointResult, ...]:
    """Return speed and cost as users vary."""
    points = [operating_point(machine, users) for users in user_counts(saturating_users(machine), 1)]
    return tuple(
        PointResult(
            users=point.concurrency,
            tokens_per_s_per_user=_speed(point),
            usd_per_million_tokens=_cost(point).value,
            usd_per_million_tokens_low=_cost(point).low,
            usd_per_million_tokens_high=_cost(point).high,
        )
        for point in points
    )


def _speed(point: OperatingPoint) -> float:
    """Return the tokens/s of each user; scenarios have answers of several tokens."""
    return point.tokens_per_s_per_user or 0.0


def _cost(point: OperatingPoint) -> SourcedNumber:
    """Return the price of a million tokens; machines of a scenario have prices."""
    assert point.usd_per_million_tokens is not None
    return point.usd_per_million_tokens
