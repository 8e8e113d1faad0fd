"""Machine: wafers or GPUs that serve a model, as a function of the users at the same time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from wse.comparison.compare.curve.row import FAST, FAST_TIMES, PLAIN, CurveRow
from wse.hardware.number import SourcedNumber
from wse.studies.estimate.gpus import batch_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The rates of some users at the same time, and what their tokens cost."""

    tokens_per_s_per_user: float
    tokens_per_s: float
    exact: bool
    cost: SourcedNumber
    energy: SourcedNumber


class Machine(Protocol):
    """What a curve needs to know of wafers or GPUs. A batch is a stream in flight on wafers, and a user on GPUs."""

    @property
    def machine(self) -> str:
        """The machine, in words."""

    @property
    def kind(self) -> str:
        """``wafer`` or ``gpu``."""

    @property
    def name(self) -> str:
        """Name of the wafer or GPU."""

    @property
    def chips(self) -> int:
        """Wafers or GPUs."""

    @property
    def software(self) -> str:
        """Mapping or stack."""

    @property
    def users_per_batch(self) -> int:
        """Users of a stream; 1 on GPUs."""

    @property
    def most(self) -> int:
        """Streams or users whose caches fit."""

    def service(self, batch: int) -> Service:
        """The rates and the cost of so many streams or users at the same time."""


def curve_of(machine: Machine) -> tuple[CurveRow, ...]:
    """The rows of a machine, the fewest users first: powers of two, as many as fit, and the fast tier's."""
    sizes = sorted(batch_sizes(machine.most, 1))
    fast = fast_batch(machine, sizes[-1])
    rows = {size: _row(machine, size) for size in sorted({*sizes, *([] if fast is None else [fast])})}
    rows[sizes[-1]] = replace(rows[sizes[-1]], tier=PLAIN)
    if fast is not None:
        rows[fast] = replace(rows[fast], tier=FAST)
    return tuple(rows.values())


def fast_batch(machine: Machine, most: int) -> int | None:
    """Streams or users of which each gets `FAST_TIMES` the speed of one of ``most``, and with one more no longer.

    None where one alone does not get it.
    """
    return most_users_at(machine, FAST_TIMES * machine.service(most).tokens_per_s_per_user)


def most_users_at(machine: Machine, tokens_per_s: float) -> int | None:
    """The most streams or users of which each gets so many tokens a second; None where one alone does not."""

    def is_fast(batch: int) -> bool:
        return machine.service(batch).tokens_per_s_per_user >= tokens_per_s

    if not is_fast(1):
        return None
    if is_fast(machine.most):
        return machine.most
    low, high = 1, machine.most  # low is fast enough, high is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_fast(middle) else (low, middle)
    return low


def _row(machine: Machine, batch: int) -> CurveRow:
    service = machine.service(batch)
    cost, energy = service.cost, service.energy
    dollars, joules = cost.range or (cost.value, cost.value), energy.range or (energy.value, energy.value)
    return CurveRow(
        machine=machine.machine,
        kind=machine.kind,
        name=machine.name,
        chips=machine.chips,
        software=machine.software,
        users=batch * machine.users_per_batch,
        tokens_per_s_per_user=service.tokens_per_s_per_user,
        tokens_per_s=service.tokens_per_s,
        exact=service.exact,
        usd_per_million_tokens=cost.value,
        usd_per_million_tokens_low=dollars[0],
        usd_per_million_tokens_high=dollars[1],
        joules_per_token=energy.value,
        joules_per_token_low=joules[0],
        joules_per_token_high=joules[1],
    )
