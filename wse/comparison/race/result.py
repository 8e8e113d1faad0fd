"""RaceResult: the paces of an answer on several machines, and when each is through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.comparison.race.pace import Pace
from wse.report.result import Doc, Result
from wse.report.table import Column, Table, number
from wse.report.terminal import WIDEST, count, printable, seconds


@dataclass(frozen=True, kw_only=True)
class LaneResult(Result):
    """A machine in a race."""

    pace: Annotated[Pace, Doc("when its tokens come")]
    tokens_per_s: Annotated[float, Doc("tokens behind the first", "tokens/s")]
    done_s: Annotated[float, Doc("from the request until the whole answer is there", "s")]
    usd_per_million_tokens: Annotated[float | None, Doc("of a million tokens, shared as it is", "USD")] = None
    usd_per_million_tokens_low: Annotated[float | None, Doc("the same at the low end of the price's range", "USD")] = (
        None
    )
    usd_per_million_tokens_high: Annotated[
        float | None, Doc("the same at the high end of the price's range", "USD")
    ] = None
    price: Annotated[str | None, Doc("price that the cost rests on, with its source")] = None
    note: Annotated[str, Doc("the machine in full")]


@dataclass(frozen=True, kw_only=True)
class RaceResult(Result):
    """The same answer on several machines, the quickest first."""

    model: Annotated[str, Doc("the model")]
    tokens: Annotated[int, Doc("tokens of the answer")]
    prompt_tokens: Annotated[int, Doc("tokens of the prompt")]
    lanes: Annotated[tuple[LaneResult, ...], Doc("the machines, the quickest first")]

    @property
    def duration_s(self) -> float:
        """Seconds until the slowest is through."""
        return max(lane.done_s for lane in self.lanes)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """The machines, the quickest first."""
        columns = (
            Column(key="name", title="machine", cell=lambda lane: lane.pace.name, wraps=True),
            number("queue", "queue", cell=lambda lane: seconds(lane.pace.queue_s)),
            number("first", "first token", cell=lambda lane: seconds(lane.pace.first_token_s), best="smallest"),
            number("tokens_per_s", "tokens/s", count, best="largest"),
            number("done_s", "whole answer", seconds, best="smallest"),
            number("usd_per_million_tokens", "USD/Mtok", count, best="smallest", priority=1),
            Column(key="note", title="as", wraps=True, priority=2),
        )
        title = f"{self.tokens:,} tokens of {self.model} behind a prompt of {self.prompt_tokens:,}"
        prices = dict.fromkeys(lane.price for lane in self.lanes if lane.price is not None)
        footer = [("*", "the best of a column, of costs at central prices")] if prices else []
        footer += [("USD/Mtok", printable(price)) for price in prices]
        return (Table(columns=columns, rows=self.lanes, title=title, footer=footer),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCost:
    """Cost of a million tokens of a lane at both ends of the price's range and at the price, and the price in words."""

    low: float
    value: float
    high: float
    price: str

    def over(self, factor: float) -> LaneCost:
        """Return the cost of tokens that come ``factor`` times as fast on the same machines."""
        return LaneCost(low=self.low / factor, value=self.value / factor, high=self.high / factor, price=self.price)


def lane_result(pace: Pace, tokens: int, *, cost: LaneCost | None, note: str) -> LaneResult:
    """Return the lane of a machine for an answer of some tokens; without costs where the price is unknown."""
    return LaneResult(
        pace=pace,
        tokens_per_s=pace.tokens_per_s,
        done_s=pace.seconds_to(tokens),
        usd_per_million_tokens=None if cost is None else cost.value,
        usd_per_million_tokens_low=None if cost is None else cost.low,
        usd_per_million_tokens_high=None if cost is None else cost.high,
        price=None if cost is None else cost.price,
        note=note,
    )
