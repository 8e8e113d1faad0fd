"""FIGURES: what of a combination can be set against a published figure, by name, with its unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from wse.reports.terminal import count
from wse.studies.scenario.result import ArrivedResult, CombinationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure.

    Attributes:
        name: Its name in scenario files.
        title: Its name in words.
        unit: Its unit; empty for a ratio.
        of: Its value of a combination that can be; None where that has none.
    """

    name: str
    title: str
    unit: str
    of: Callable[[CombinationResult], float | None]

    def text(self, value: float) -> str:
        """A value with its unit."""
        number = f"{value:.3g}" if value < 100 else count(value)
        return f"{number} {self.unit}".strip() if self.unit else f"{number} times"


def _figure(name: str, title: str, unit: str, path: str) -> Figure:
    """A figure that stands under a path of fields."""
    table, _, field = path.rpartition(".")

    def of(combination: CombinationResult) -> float | None:
        holder = attrgetter(table)(combination)
        value = None if holder is None else getattr(holder, field)
        return None if value is None else float(value)

    return Figure(name=name, title=title, unit=unit, of=of)


def _arrived(name: str, title: str, unit: str, field: str) -> Figure:
    """A figure of requests that arrive: of the last tier, which is the fast one."""

    def of(combination: CombinationResult) -> float | None:
        rows: tuple[ArrivedResult, ...] = combination.arrived or ()
        value = getattr(rows[-1], field) if rows else None
        return None if value is None else float(value)

    return Figure(name=name, title=title, unit=unit, of=of)


_MACHINE: Final = (
    _figure("tokens_per_s_per_user", "a user", "tokens/s", "prediction.tokens_per_s_per_user"),
    _figure("tokens_per_s", "all users", "tokens/s", "prediction.tokens_per_s"),
    _figure("ttft_s", "first token", "s", "prediction.ttft_s"),
    _figure("usd_per_million_tokens", "a million tokens at central prices", "USD", "prediction.usd_per_million_tokens"),
    _figure("joules_per_token", "energy of a token", "J", "prediction.joules_per_token"),
    _figure("chips", "wafers or GPUs", "chips", "prediction.chips"),
)
TIERS: Final = (
    _figure(
        "ordinary_tokens_per_s_per_user", "ordinary tier, a user", "tokens/s", "tiers.ordinary_tokens_per_s_per_user"
    ),
    _figure("fast_tokens_per_s_per_user", "fast tier, a user", "tokens/s", "tiers.fast_tokens_per_s_per_user"),
    _figure(
        "ordinary_usd_per_million_tokens",
        "ordinary tier, a million at central prices",
        "USD",
        "tiers.ordinary_usd_per_million_tokens",
    ),
    _figure(
        "fast_usd_per_million_tokens",
        "fast tier, a million at central prices",
        "USD",
        "tiers.fast_usd_per_million_tokens",
    ),
    _figure("speed_up", "speed of the fast tier", "", "tiers.speed_up"),
    _figure("cost_ratio", "cost of a fast token", "", "tiers.cost_ratio"),
)
SERVED: Final = (
    _arrived("served_ttft_s", "first token under load", "s", "ttft_p50_s"),
    _arrived("served_tokens_per_s_per_user", "a user under load", "tokens/s", "tokens_per_s_per_user"),
    _arrived("capacity_requests_per_s", "capacity", "requests/s", "capacity_requests_per_s"),
)
FIGURES: Final[Mapping[str, Figure]] = {figure.name: figure for figure in (*_MACHINE, *TIERS, *SERVED)}
