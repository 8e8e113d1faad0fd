"""Synthetic machines whose operating points are known in closed form.

A decode step for N users takes ``base_s + N * per_user_s`` seconds. A prompt takes the same time as one token, so a
request of T tokens takes ``T * (base_s + N * per_user_s)``:

    tokens/s per user      = 1 / (base_s + N per_user_s)
    USD per million tokens = USD/h / 3,600 * 10^6 * (base_s + N per_user_s) / N
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wse.arrays import F64
from wse.hardware.number import SourcedNumber
from wse.serving.economics import Economics
from wse.serving.goal import Goal
from wse.serving.operating_point import RequestShape
from wse.serving.plan import plan
from wse.serving.steady_state import SteadyState
from wse.studies.compare.machine import GPU, WAFER, Kind, Machine
from wse.studies.compare.plan.result import PlannedRow
from wse.studies.compare.plan.rows import planned_row

TOKENS = 100
POWER_W = 1_000.0


@dataclass(frozen=True, kw_only=True)
class LinearDeployment:
    """A deployment with the closed forms of this module.

    Attributes:
        base_s: Seconds of a decode step, without the part that grows with the users.
        per_user_s: Additional seconds of a decode step for each user.
        saturated_from: Number of users from which the deployment reports that it is saturated.
    """

    base_s: float
    per_user_s: float
    max_concurrency: int
    chips: int
    economics: Economics
    saturated_from: float = math.inf

    @property
    def shape(self) -> RequestShape:
        return RequestShape(prompt_tokens=8, new_tokens=TOKENS)

    def steady_state(self, users: float, think_s: float = 0.0) -> SteadyState:
        assert not think_s
        tpot_s = self.base_s + users * self.per_user_s
        return SteadyState(
            ttft_s=tpot_s,
            answer_s=(TOKENS - 1) * tpot_s,
            requests_per_s=users / (TOKENS * tpot_s),
            saturated=users >= self.saturated_from,
        )


def economics(kind: Kind, usd_per_hour: float, ends: tuple[float, float] | None = None) -> Economics:
    """Return economics with a price, an optional range of the price, and a power of POWER_W."""
    price = SourcedNumber(value=usd_per_hour, unit="USD/h", grade="I", source="test", range=ends)
    power = SourcedNumber(value=POWER_W, unit="W", grade="I", source="test", range=None)
    return Economics(kind=kind, sources={f"{kind}_power_w": power, f"{kind}_usd_per_hour": price})


def deployment(
    base_s: float,
    per_user_s: float = 0.0,
    *,
    room: int = 1,
    usd_per_hour: float = 1.0,
    ends: tuple[float, float] | None = None,
    kind: Kind = GPU,
    saturated_from: float = math.inf,
) -> LinearDeployment:
    """Return a deployment of one chip whose KV cache has room for `room` users; `ends` is the range of its price."""
    return LinearDeployment(
        base_s=base_s,
        per_user_s=per_user_s,
        max_concurrency=room,
        chips=1,
        economics=economics(kind, usd_per_hour, ends),
        saturated_from=saturated_from,
    )


EXACT: Sequence[float] = (1.0,) * 4


def wafer(
    base_s: float,
    per_user_s: float = 0.0,
    time_ratios: Sequence[float] = EXACT,
    **settings: float | tuple[float, float] | None,
) -> Machine:
    """Return a wafer with a sample per entry of `time_ratios`, which multiplies all times; settings as `deployment`."""
    return _machine(WAFER, "wse3", "bands", base_s, per_user_s, np.array(time_ratios), settings)


def gpu(
    base_s: float,
    per_user_s: float = 0.0,
    time_ratios: Sequence[float] = EXACT,
    **settings: float | tuple[float, float] | None,
) -> Machine:
    """Return a GPU; the arguments are those of `wafer`."""
    return _machine(GPU, "h200", "vllm", base_s, per_user_s, np.array(time_ratios), settings)


def _machine(
    kind: Kind,
    name: str,
    software: str,
    base_s: float,
    per_user_s: float,
    time_ratios: F64,
    settings: dict[str, float | tuple[float, float] | None],
) -> Machine:
    made = deployment(base_s, per_user_s, kind=kind, **settings)  # type: ignore[arg-type]  # types differ by key
    return Machine(kind=kind, name=name, software=software, dtype="fp8", deployment=made, time_ratios=time_ratios)


def usd(base_s: float, per_user_s: float, users: float, usd_per_hour: float = 1.0) -> float:
    """Return USD per million tokens at a number of users, by the formula in the docstring of this module."""
    return usd_per_hour / 3600 * 1e6 * (base_s + users * per_user_s) / users


def made_row(kind: Kind, base_s: float, goal: Goal, **settings: float | tuple[float, float] | None) -> PlannedRow:
    """Return the row of a synthetic machine whose operating points are known in closed form."""
    machine = deployment(base_s, kind=kind, **settings)  # type: ignore[arg-type]  # types depend on the setting
    found = plan(machine, goal)
    assert found is not None
    return planned_row(machine, found, kind=kind, name=kind, software="s", dtype="fp8")
