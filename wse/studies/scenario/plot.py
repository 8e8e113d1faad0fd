"""Plot of a scenario: its two charts side by side, with logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wse.reports.colours import PLOT_SERIES
from wse.reports.terminal import printable
from wse.studies.compare.curve.plot import GREY, scale
from wse.studies.compare.plot import MARKERS
from wse.studies.scenario.drawing import Drawing, Line, drawings_of, series_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.scenario.result import ScenarioResult


def scenario_as_png(result: ScenarioResult) -> bytes:
    """Render the charts of a scenario as a PNG image."""
    from wse.reports.figure import png_of

    return png_of(scenario_figure(result))


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
