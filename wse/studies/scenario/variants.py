"""The combinations of a placement that can be: its drafts, users and tiers on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wse.errors import BadInput, DoesNotFit, UnknownName
from wse.hardware.number import SourcedNumber
from wse.reports.terminal import count, plural
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.operating_point import OperatingPoint, largest_that
from wse.studies.results.operating_points import user_counts
from wse.studies.scenario.form import MOST, DraftForm
from wse.studies.scenario.machine import LaidOut, Served
from wse.studies.scenario.placement import Placement
from wse.studies.scenario.result import CombinationResult, PointResult, PredictionResult, TiersResult
from wse.studies.scenario.served import arrived_at


def combinations_on(
    placement: Placement, lay_out: Callable[[Goal], LaidOut], beyond_s: float, facts: dict[str, Any]
) -> tuple[CombinationResult, ...]:
    """Return the combinations of a placement, with the reason where one cannot be.

    Args:
        placement: The placement.
        lay_out: Returns the placement laid out for a goal.
        beyond_s: Seconds of the time to first token beyond the machine: network and service.
        facts: What all combinations have in common: model, parameters, dtype, chips.
    """
    variants = _Variants(placement=placement, lay_out=lay_out, beyond_s=beyond_s, facts=facts)
    return tuple(variants.combinations())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variants:
    """The variants of a placement; fields as the arguments of `combinations_on`."""

    placement: Placement
    lay_out: Callable[[Goal], LaidOut]
    beyond_s: float
    facts: dict[str, Any]

    def combinations(self) -> Iterator[CombinationResult]:
        """Yield a combination for each draft and each number of users or plain speed."""
        tiers = self.placement.form.tiers
        variant = self._with_users if tiers is None else self._with_tiers
        for draft in self.placement.form.drafts:
            for users in self.placement.users:
                try:
                    yield variant(draft, users)
                except UnknownName:
                    raise
                except (BadInput, DoesNotFit) as error:
                    yield self._impossible(draft, 1 if tiers else users, str(error))

    def _impossible(self, draft: DraftForm, users: float | str, reason: str) -> CombinationResult:
        return self.placement.combination(draft, users, ruled_out_by=(reason,), **self.facts)

    def _with_users(self, draft: DraftForm, users: float | str) -> CombinationResult:
        """Return the combination of a number of users, or of as many as saturate the machine."""
        number = None if users == MOST else int(users)
        machine = self.lay_out(Goal(users=number, objective=THROUGHPUT if number is None else LATENCY))
        if not machine.plain.max_concurrency:
            return self._impossible(draft, users, self._no_room(machine))
        served = machine.served(draft, number or machine.useful_users)
        if number is None and served.max_users < served.point.concurrency:  # beside a draft
            served = machine.served(draft, max(1, served.max_users))
        if served.point.concurrency > served.max_users:
            reason = f"caches: room for {plural(served.max_users, 'user')} of {users:,}"
            return self._impossible(draft, users, reason)
        arrived = None
        if self.placement.form.arrivals is not None and not draft.tree:
            arrived = arrived_at(self.placement, [(draft, served.point.concurrency)])
        return self.placement.combination(
            draft,
            users,
            prediction=self._prediction(served),
            arrived=arrived,
            curve=_curve(machine, draft),
            **self.facts,
        )

    def _with_tiers(self, draft: DraftForm, plain_speed: float | str) -> CombinationResult:
        """Return the combination of an ordinary tier of a plain speed and a fast tier of a multiple of it.

        Each tier has the layout with the cheapest token at its speed, and the most users who each get that speed.
        """
        tiers = self.placement.form.tiers
        assert tiers is not None  # whoever calls this has looked
        speed = float(plain_speed)
        ordinary_draft = DraftForm() if tiers.drafts == "fast" else draft
        machine, fast_machine = (self._laid_out_for(one) for one in (speed, tiers.speed_up * speed))
        if not machine.plain.max_concurrency or not fast_machine.plain.max_concurrency:
            return self._impossible(draft, 1, self._no_room(machine))
        ordinary_users = _users_at(machine, ordinary_draft, speed)
        if not ordinary_users:
            alone = _speed(machine.served(ordinary_draft, 1).point)
            reason = f"one user alone gets {count(alone)} tokens/s, less than the plain speed of {speed:g}"
            return self._impossible(draft, 1, reason)
        ordinary = machine.served(ordinary_draft, ordinary_users)
        fast_users = _users_at(fast_machine, draft, tiers.speed_up * speed)
        fast = fast_machine.served(draft, max(1, fast_users))
        found = _tiers(ordinary.point, fast.point, reached=fast_users > 0)
        arrived = None
        if self.placement.form.arrivals is not None and not draft.tree:
            pairs = [(ordinary_draft, found.ordinary_users), (draft, found.fast_users)]
            arrived = arrived_at(self.placement, pairs)
        return self.placement.combination(
            draft,
            found.ordinary_users,
            prediction=self._prediction(ordinary),
            arrived=arrived,
            curve=_curve(machine, draft),
            tiers=found,
            **self.facts,
        )

    def _laid_out_for(self, tokens_per_s: float) -> LaidOut:
        """Return the placement laid out for the cheapest token of users who each get a number of tokens per second."""
        return self.lay_out(Goal(tpot_s=1 / tokens_per_s, objective=COST))

    @staticmethod
    def _no_room(machine: LaidOut) -> str:
        return f"the KV cache of {machine.plain.shape.tokens:,} tokens does not fit"

    def _prediction(self, served: Served) -> PredictionResult:
        point = served.point
        cost, energy = _cost(point), point.joules_per_token
        assert energy is not None  # machines of a scenario have a power
        return PredictionResult(
            chips=served.chips,
            users=point.concurrency,
            most_users=served.max_users,
            tokens_per_s_per_user=_speed(point),
            tokens_per_s=point.tokens_per_s,
            ttft_s=point.ttft_s + self.beyond_s,
            usd_per_million_tokens=cost.value,
            usd_per_million_tokens_low=cost.low,
            usd_per_million_tokens_high=cost.high,
            joules_per_token=energy.value,
            speculation=served.speculation,
            grade=served.grade,
        )


def _users_at(machine: LaidOut, draft: DraftForm, tokens_per_s: float) -> int:
    """Return the most users who each get a number of tokens per second; 0 where one alone does not."""
    return largest_that(
        lambda users: (
            users <= (served := machine.served(draft, users)).max_users and _speed(served.point) >= tokens_per_s
        ),
        machine.useful_users,
    )


def _tiers(slow: OperatingPoint, quick: OperatingPoint, *, reached: bool) -> TiersResult:
    """Return an ordinary and a fast tier."""
    return TiersResult(
        ordinary_users=slow.concurrency,
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
        reached=reached,
    )


def _curve(machine: LaidOut, draft: DraftForm) -> tuple[PointResult, ...]:
    """Return speed and cost as users vary."""
    served = (machine.served(draft, users) for users in user_counts(machine.useful_users, 1))
    points = [one.point for one in served if one.point.concurrency <= one.max_users]
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
