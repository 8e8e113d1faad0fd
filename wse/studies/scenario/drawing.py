"""Drawings of a scenario, as the plot and the page draw them: lines of points, and what is published.

With tiers the cost of a token over the speed of a user, each over that of the ordinary tier; else the size of a
combination over the speed of a user. Then the cost of a token over the speed of a user as users vary. Combinations that
agree have a colour for each model, or machine where there is one model; those that are ruled out are grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wse.reports.terminal import count, plural, printable, ranged
from wse.studies.compare.curve.tables import price
from wse.studies.scenario.figures import FIGURES, published_text
from wse.studies.scenario.form import RULED_OUT

if TYPE_CHECKING:
    from wse.studies.scenario.result import CombinationResult, PublishedResult, ScenarioResult

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
    public: tuple[Point, ...]


def drawings_of(result: ScenarioResult) -> tuple[Drawing, ...]:
    """Return the drawings of a scenario."""
    possible = [one for one in result.combinations if one.prediction is not None]
    several = len({one.model for one in possible}) > 1

    def line(one: CombinationResult, points: Sequence[Point]) -> Line:
        series = "" if one.agreement == RULED_OUT else printable(one.model if several else one.machine)
        return Line(series=series, kind=one.kind, points=tuple(points))

    speeds = tuple(
        Point(x=one.value, y=None, lines=_told(one)) for one in result.published if one.figure in USER_FIGURES
    )
    curves = [line(one, [_point(one, point.to_dict()) for point in one.curve or ()]) for one in possible]
    costs = Drawing(title=COST, across=SPEED, lines=tuple(curves), public=speeds)
    if any(one.tiers for one in possible):
        return _ratios([line(one, _ratio_points(one)) for one in possible if one.tiers], result.published), costs
    sizes = [line(one, [_size_point(one, several=several)]) for one in possible]
    title = "billions of parameters" if several else "wafers or GPUs"
    return costs, Drawing(title=title, across=SPEED, lines=tuple(sizes), public=speeds)


def series_of(drawings: Sequence[Drawing]) -> list[str]:
    """Return the names that have a colour, in their order."""
    return list(dict.fromkeys(line.series for drawing in drawings for line in drawing.lines if line.series))


def _ratios(lines: Sequence[Line], published: Sequence[PublishedResult]) -> Drawing:
    """Return speed and cost over those of the ordinary tier, with published speed-ups at the published cost ratio."""
    cost = next((one for one in published if one.figure == "cost_ratio"), None)
    points = (
        Point(x=one.value, y=None if cost is None else cost.value, lines=(*_told(one), *(_told(cost) if cost else ())))
        for one in published
        if one.figure == "speed_up"
    )
    return Drawing(
        title="cost of a token over that of the ordinary tier",
        across="speed of a user over that of the ordinary tier",
        lines=tuple(lines),
        public=tuple(points),
    )


def _ratio_points(one: CombinationResult) -> list[Point]:
    """Return the ordinary and the fast tier, and numbers of users from the ordinary one's down."""
    assert one.tiers is not None  # whoever calls this has looked
    ordinary, fast = one.tiers.point("ordinary"), one.tiers.point("fast")
    every = (*(point.to_dict() for point in one.curve or ()), ordinary, fast)
    points = {point["users"]: point for point in every if point["users"] <= ordinary["users"]}
    speed, cost = ordinary["tokens_per_s_per_user"], ordinary["usd_per_million_tokens"]
    return [_point(one, points[users], speed, cost) for users in sorted(points)]


def _size_point(one: CombinationResult, *, several: bool) -> Point:
    """Return the speed of a user with the parameters of the model, or the chips where there is one model."""
    assert one.prediction is not None  # whoever calls this has looked
    size = one.parameters / 1e9 if several else one.prediction.chips
    return Point(x=one.speed, y=size, lines=_point(one, one.prediction.to_dict()).lines)


def _point(one: CombinationResult, point: Mapping[str, Any], speed: float = 1.0, cost: float = 1.0) -> Point:
    """Return an operating point, over a speed and a cost."""
    low, value, high = (point[f"usd_per_million_tokens{end}"] for end in ("_low", "", "_high"))
    lines = (
        one.settings,
        plural(point["users"], "user"),
        f"a user: {count(point['tokens_per_s_per_user'])} tokens/s",
        f"{ranged(value, low, high, price)} USD a million tokens",
        *(one.ruled_out_by or ()),
    )
    return Point(x=point["tokens_per_s_per_user"] / speed, y=value / cost, lines=lines)


def _told(published: PublishedResult) -> tuple[str, ...]:
    date = "" if published.date is None else f", {printable(published.date)}"
    return f"published: {FIGURES[published.figure].title} {published_text(published)}", f"{published.by}{date}"
