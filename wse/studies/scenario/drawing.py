"""Drawings of a scenario, as the plot and the page draw them: lines of points, and what is published.

- With tiers: the speed of a user over that of the ordinary tier, and the cost of a token over its.
- Else: the speed of a user and the cost of a token as users vary, of each combination; and its speed over the
  parameters of models, or over wafers and GPUs where there is one model.

Combinations that agree have a colour for each model, or machine where there is one model; those that are ruled out are
grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wse.reports.terminal import count, plural, printable, ranged
from wse.studies.compare.curve.tables import price
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.judge import published_text
from wse.studies.scenario.result import (
    RULED_OUT,
    CombinationResult,
    PointResult,
    PublishedResult,
    ScenarioResult,
    TiersResult,
)

SPEED: Final = "tokens/s of a user"
COST: Final = "USD for a million tokens of all users"
USER_FIGURES: Final = ("tokens_per_s_per_user", "ordinary_tokens_per_s_per_user", "fast_tokens_per_s_per_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point, with the lines that are shown beside it; ``y`` is None for a speed that stands at the upper edge."""

    x: float
    y: float | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points that are joined; ``series`` is empty for what is ruled out."""

    series: str
    kind: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawing: its title, which is what lies upwards, what lies across, lines, and what is published."""

    title: str
    across: str
    lines: tuple[Line, ...]
    published: tuple[Point, ...]


def drawings_of(result: ScenarioResult) -> tuple[Drawing, ...]:
    """The drawings of a scenario."""
    possible = [one for one in result.combinations if one.prediction is not None]
    speeds = tuple(_speed_point(one) for one in result.published if one.figure in USER_FIGURES)
    costs = Drawing(
        title=COST,
        across=SPEED,
        lines=tuple(Line(series=_series(one, possible), kind=one.kind, points=_points(one)) for one in possible),
        published=speeds,
    )
    if any(one.tiers is not None for one in possible):
        return _ratios(result, possible), costs
    return costs, _sizes(possible, speeds)


def series_of(drawings: Sequence[Drawing]) -> list[str]:
    """The names that have a colour, in their order."""
    return list(dict.fromkeys(line.series for drawing in drawings for line in drawing.lines if line.series))


def _ratios(result: ScenarioResult, possible: Sequence[CombinationResult]) -> Drawing:
    """Speed and cost over those of the ordinary tier, from that on as there are fewer users."""
    return Drawing(
        title="cost of a token over that of the ordinary tier",
        across="speed of a user over that of the ordinary tier",
        lines=tuple(
            Line(series=_series(one, possible), kind=one.kind, points=_ratio_points(one, one.tiers))
            for one in possible
            if one.tiers is not None
        ),
        published=_published_ratios(result.published),
    )


def _ratio_points(one: CombinationResult, tiers: TiersResult) -> tuple[Point, ...]:
    """The ordinary and the fast tier, and numbers of users from the ordinary one's down."""
    ends = (
        PointResult(
            users=tiers.ordinary_users,
            tokens_per_s_per_user=tiers.ordinary_tokens_per_s_per_user,
            usd_per_million_tokens=tiers.ordinary_usd_per_million_tokens,
            usd_per_million_tokens_low=tiers.ordinary_usd_per_million_tokens_low,
            usd_per_million_tokens_high=tiers.ordinary_usd_per_million_tokens_high,
        ),
        PointResult(
            users=tiers.fast_users,
            tokens_per_s_per_user=tiers.fast_tokens_per_s_per_user,
            usd_per_million_tokens=tiers.fast_usd_per_million_tokens,
            usd_per_million_tokens_low=tiers.fast_usd_per_million_tokens_low,
            usd_per_million_tokens_high=tiers.fast_usd_per_million_tokens_high,
        ),
    )
    by_users = {point.users: point for point in (*(one.curve or ()), *ends) if point.users <= tiers.ordinary_users}
    return tuple(
        Point(
            x=point.tokens_per_s_per_user / tiers.ordinary_tokens_per_s_per_user,
            y=point.usd_per_million_tokens / tiers.ordinary_usd_per_million_tokens,
            lines=_lines(one, point),
        )
        for _, point in sorted(by_users.items())
    )


def _published_ratios(published: Sequence[PublishedResult]) -> tuple[Point, ...]:
    """Published speed-ups with the published cost ratio, where there is one."""
    costs = [one for one in published if one.figure == "cost_ratio"]
    return tuple(
        Point(
            x=one.value,
            y=costs[0].value if costs else None,
            lines=(*_told(one), *(_told(costs[0]) if costs else ())),
        )
        for one in published
        if one.figure == "speed_up"
    )


def _sizes(possible: Sequence[CombinationResult], speeds: tuple[Point, ...]) -> Drawing:
    """Parameters, or chips where there is one model, over the speed of a user."""
    several = len({one.model for one in possible}) > 1
    lines = []
    for one in possible:
        prediction = one.prediction
        if prediction is None:
            continue
        size = one.parameters / 1e9 if several else prediction.chips
        found = PointResult(
            users=prediction.users,
            tokens_per_s_per_user=prediction.tokens_per_s_per_user,
            usd_per_million_tokens=prediction.usd_per_million_tokens,
            usd_per_million_tokens_low=prediction.usd_per_million_tokens_low,
            usd_per_million_tokens_high=prediction.usd_per_million_tokens_high,
        )
        point = Point(x=prediction.tokens_per_s_per_user, y=size, lines=_lines(one, found))
        lines.append(Line(series=_series(one, possible), kind=one.kind, points=(point,)))
    title = "billions of parameters" if several else "wafers or GPUs"
    return Drawing(title=title, across=SPEED, lines=tuple(lines), published=speeds)


def _series(one: CombinationResult, possible: Sequence[CombinationResult]) -> str:
    if one.agreement == RULED_OUT:
        return ""
    return printable(one.model if len({other.model for other in possible}) > 1 else one.machine)


def _points(one: CombinationResult) -> tuple[Point, ...]:
    return tuple(
        Point(x=point.tokens_per_s_per_user, y=point.usd_per_million_tokens, lines=_lines(one, point))
        for point in one.curve or ()
    )


def _lines(one: CombinationResult, point: PointResult) -> tuple[str, ...]:
    low, high = point.usd_per_million_tokens_low, point.usd_per_million_tokens_high
    return (
        one.settings,
        plural(point.users, "user"),
        f"a user: {count(point.tokens_per_s_per_user)} tokens/s",
        f"{ranged(point.usd_per_million_tokens, low, high, price)} USD a million tokens",
        *(one.ruled_out_by or ()),
    )


def _speed_point(published: PublishedResult) -> Point:
    return Point(x=published.value, y=None, lines=_told(published))


def _told(published: PublishedResult) -> tuple[str, ...]:
    date = "" if published.date is None else f", {printable(published.date)}"
    return f"published: {FIGURES[published.figure].title} {published_text(published)}", f"{published.by}{date}"
