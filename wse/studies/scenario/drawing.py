"""Charts of a scenario, for the HTML page, and both side by side in a plot.

Every scenario has two charts:

- cost per token against speed per user, as the number of users varies
- with tiers, the same relative to the plain tier; otherwise the model size, or the number of
  chips if there is only one model, against speed per user

Combinations that agree are coloured by model, or by machine if there is only one model.
Combinations that are ruled out are grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wse.reports.colours import PLOT_SERIES
from wse.reports.number_text import count, plural, ranged, three_figures
from wse.reports.terminal import printable
from wse.studies.compare.curve.plot import GREY, scale
from wse.studies.compare.plot import MARKERS
from wse.studies.scenario.figures import published_texts
from wse.studies.scenario.form import RULED_OUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.scenario.result import CombinationResult, PublishedResult, ScenarioResult


SPEED: Final = "tokens/s of a user"
COST: Final = "USD per million tokens of all users"
USER_FIGURES: Final = ("tokens_per_s_per_user", "plain_tokens_per_s_per_user", "fast_tokens_per_s_per_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A chart point with a tooltip.

    Attributes:
        x: Horizontal coordinate.
        y: Vertical coordinate. None for a published speed without a cost, which is drawn as a
            vertical line.
        lines: Lines of the tooltip.
    """

    x: float
    y: float | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A chart line for one model on one machine, with a point for each number of users.

    Attributes:
        series: Name of the model or machine that determines the colour. Empty for a grey line,
            which shows predictions that contradict published figures.
        kind: ``wafer`` or ``gpu``.
        points: The points, in order.
    """

    series: str
    kind: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart of a scenario's predicted and published figures.

    Attributes:
        title: Title, which is also the label of the vertical axis.
        across: Label of the horizontal axis.
        lines: Predictions, one line for each combination of model and machine.
        public: Published figures.
    """

    title: str
    across: str
    lines: tuple[Line, ...]
    public: tuple[Point, ...]


def drawings_of(result: ScenarioResult) -> tuple[Drawing, ...]:
    """Build the two charts of a scenario. The horizontal axis of both shows the speed.

    The vertical axis of one chart is the cost. The vertical axis of the other chart is:

    - the cost relative to the plain tier, if the scenario has a plain and a fast service tier. The
      speed is relative to the plain tier too.
    - the number of parameters, if there are several models.
    - the number of wafers or GPUs otherwise.

    Combinations of settings that cannot run are omitted.
    """
    possible = [combination for combination in result.combinations if combination.prediction is not None]
    several_models = len({combination.model for combination in possible}) > 1

    def line(combination: CombinationResult, points: Sequence[Point]) -> Line:
        """Build the chart line of a combination of settings.

        Its colour shows the model or, if all combinations have the same model, the machine.
        """
        name = combination.model if several_models else combination.machine_text
        series = "" if combination.agreement == RULED_OUT else printable(name)
        return Line(series=series, kind=combination.kind, points=tuple(points))

    speeds = tuple(
        Point(x=published.value, y=None, lines=_published_lines(published))
        for published in result.published
        if published.figure in USER_FIGURES
    )
    curves = [
        line(combination, [_point(combination, point.to_dict()) for point in combination.curve or ()])
        for combination in possible
    ]
    costs = Drawing(title=COST, across=SPEED, lines=tuple(curves), public=speeds)
    if any(combination.tiers for combination in possible):
        tiers = [line(combination, _ratio_points(combination)) for combination in possible if combination.tiers]
        return _ratios(tiers, result.published), costs
    sizes = [line(combination, [_size_point(combination, several_models=several_models)]) for combination in possible]
    title = "billions of parameters" if several_models else "wafers or GPUs"
    return costs, Drawing(title=title, across=SPEED, lines=tuple(sizes), public=speeds)


def series_of(drawings: Sequence[Drawing]) -> list[str]:
    """Return the names of models or machines that are drawn in colour, in order of appearance."""
    return list(dict.fromkeys(line.series for drawing in drawings for line in drawing.lines if line.series))


def _ratios(lines: Sequence[Line], published: Sequence[PublishedResult]) -> Drawing:
    """Build the chart that compares a fast service tier with a plain (slower and cheaper) one.

    The axes are speed and cost, each divided by that of the plain tier. All published speed-ups are
    combined with the first published cost ratio. Without a published cost ratio, they are drawn as
    vertical lines.

    Args:
        lines: Predictions, one line per combination of settings.
        published: Published figures of the scenario.
    """
    cost = next((figure for figure in published if figure.figure == "cost_ratio"), None)
    cost_lines = _published_lines(cost) if cost else ()
    points = (
        Point(
            x=figure.value,
            y=None if cost is None else cost.value,
            lines=(*_published_lines(figure), *cost_lines),
        )
        for figure in published
        if figure.figure == "speed_up"
    )
    return Drawing(
        title="cost of a token divided by that of the plain tier",
        across="speed of a user divided by that of the plain tier",
        lines=tuple(lines),
        public=tuple(points),
    )


def _ratio_points(combination: CombinationResult) -> list[Point]:
    """Return the chart points of one combination of settings, relative to its plain service tier.

    The points are the plain tier, the fast tier, and all calculated points with at most as many
    users as the plain tier. With fewer users, each gets a higher speed. The points are sorted by
    number of users.
    """
    assert combination.tiers is not None  # callers check this
    plain, fast = combination.tiers.point("plain"), combination.tiers.point("fast")
    all_points = (*(point.to_dict() for point in combination.curve or ()), plain, fast)
    points = {point["users"]: point for point in all_points if point["users"] <= plain["users"]}
    speed, cost = plain["tokens_per_s_per_user"], plain["usd_per_million_tokens"]
    return [_point(combination, points[users], speed, cost) for users in sorted(points)]


def _size_point(combination: CombinationResult, *, several_models: bool) -> Point:
    """Return a chart point: speed per user (horizontal) and size (vertical).

    Args:
        combination: The combination of settings that the point shows.
        several_models: Whether the chart has several models. If True, the size is the number of
            parameters in billions. Otherwise it is the number of wafers or GPUs.
    """
    assert combination.prediction is not None  # callers check this
    size = combination.parameters / 1e9 if several_models else combination.prediction.chips
    lines = _point(combination, combination.prediction.to_dict()).lines
    return Point(x=combination.speed, y=size, lines=lines)


def _point(combination: CombinationResult, point: Mapping[str, Any], speed: float = 1.0, cost: float = 1.0) -> Point:
    """Return the speed and cost of a combination of settings, as a chart point with a tooltip.

    Args:
        combination: The combination.
        point: Predicted figures for one number of users, keyed by field names of
            `wse.studies.results.operating_points.OperatingPointResult`.
        speed: Divisor of the speed, in tokens/s per user. 1 for the absolute speed.
        cost: Divisor of the cost, in USD per million tokens. 1 for the absolute cost.
    """
    low, value, high = (point[f"usd_per_million_tokens{end}"] for end in ("_low", "", "_high"))
    lines = (
        combination.settings,
        plural(point["users"], "user"),
        f"a user: {count(point['tokens_per_s_per_user'])} tokens/s",
        f"{ranged(value, low, high, three_figures)} USD per million tokens",
        *(combination.ruled_out_by or ()),
    )
    return Point(x=point["tokens_per_s_per_user"] / speed, y=value / cost, lines=lines)


def _published_lines(published: PublishedResult) -> tuple[str, ...]:
    """Return two tooltip lines for a published figure: its value, then its publisher and date."""
    text, publisher = published_texts(published)
    return f"published: {text}", publisher


def scenario_figure(result: ScenarioResult) -> Figure:
    """Draw the charts of a scenario side by side."""
    from wse.reports.figure import NotebookFigure

    drawings = drawings_of(result)
    series = series_of(drawings)
    figure = NotebookFigure(figsize=(14, 6.6), layout="constrained")
    for axes, drawing in zip(figure.subplots(1, len(drawings)), drawings, strict=True):
        for line in sorted(drawing.lines, key=lambda line: bool(line.series)):
            _line(axes, line, series)
        scale(axes, drawing.title, drawing.across)
        _published(axes, drawing)
    figure.suptitle(printable(result.title), fontsize=10, parse_math=False)
    lines_by_label = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    figure.legend(handles=[*lines_by_label.values()], loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _line(axes: Any, line: Line, series: Sequence[str]) -> None:
    """Draw the predictions for one combination of model and machine as a line.

    The line is grey if published figures rule out the combination.

    Args:
        axes: Matplotlib axes.
        line: The line.
        series: Names of all series. The index of the line's series determines its colour.
    """
    number = series.index(line.series) if line.series else -1
    axes.plot(
        [point.x for point in line.points],
        [point.y for point in line.points],
        color=PLOT_SERIES[number % len(PLOT_SERIES)] if line.series else GREY,
        label=line.series or "ruled out",
        marker=MARKERS[number % len(MARKERS)] if line.series else ".",
        markersize=5 if line.series else 4,
        linewidth=1.2 if line.series else 0.7,
        linestyle="--" if line.kind == "gpu" else "-",
        alpha=0.85,
        zorder=2 if line.series else 1,
    )


def _published(axes: Any, drawing: Drawing) -> None:
    """Draw the published figures: diamonds, and vertical lines for speeds without a price."""
    for point in drawing.public:
        if point.y is None:
            axes.axvline(point.x, color="black", linewidth=0.9, linestyle=":", label="published speed")
        else:
            label = "published speed and price"
            axes.plot(point.x, point.y, color="black", marker="D", markersize=7, linestyle="", label=label)
