"""Plot of a sweep: speeds, latency and cost against one axis, with a line per other setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.errors import BadInput, UnknownName
from wse.reports.colours import PLOT_SERIES
from wse.reports.number_text import seconds
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.row import JournalEntry
from wse.studies.sweep.shown import value_in, varied_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS: Final = (
    ("user", "tokens/s of a user"),
    ("throughput", "tokens/s of all users"),
    ("ttft", "time to the first token"),
    ("cost", "USD per million output tokens"),
)
MAX_POINTS: Final = 20_000
MAX_NAMED: Final = 14
MARKERS: Final = ("o", "v", "^", "s", "D", "P", "X")
LONGEST_NAME: Final = 48
WIDE: Final = 20
"""Minimum ratio of the largest to the smallest value at which an axis is logarithmic."""


def check_axis(grid: Grid, axis: str | None) -> str:
    """Return the name of the sweep axis to plot horizontally.

    It is the requested axis or, by default, the axis with the most values.

    Raises:
        UnknownName: There is no axis with several values of this name.
        BadInput: No axis has several values, or there are too many settings to draw.
    """
    names = varied_axes(grid)
    check_points(len(grid), names)
    if axis is None:
        return max(names, key=lambda name: next(len(a.values) for a in grid.axes if a.name == name))
    if axis not in names:
        raise UnknownName("axis", axis, names, place="--x")
    return axis


def check_points(settings: int, axes: Sequence[str]) -> None:
    """Check that a sweep varies something and is small enough to be drawn.

    Args:
        settings: Number of settings.
        axes: Names of the axes with several values.

    Raises:
        BadInput: No axis has several values, or there are too many settings.
    """
    if not axes:
        raise BadInput("a picture needs several settings; give an axis several values, such as --set batch=1,2,4")
    if settings > MAX_POINTS:
        raise BadInput(f"{settings:,} settings are too many to draw in one picture; give at most {MAX_POINTS:,}")


def figure_of(grid: Grid, entries: Iterable[JournalEntry], axis: str) -> Figure:
    """Draw four panels against one sweep axis: tokens/s per user, total tokens/s, TTFT, and cost.

    There is one line per combination of values on the other axes.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        entries: The settings with their results.
        axis: Name of the horizontal axis.
    """
    from wse.reports.figure import NotebookFigure

    lines: dict[str, list[tuple[Any, JournalEntry]]] = {}
    for entry in entries:
        setting = grid.setting(entry.setting)
        other_settings = (f"{name.rpartition('.')[2]} {setting[name]}" for name in varied_axes(grid) if name != axis)
        lines.setdefault(", ".join(other_settings), []).append((setting[axis], entry))
    values = next(a.values for a in grid.axes if a.name == axis)
    numeric = all(not isinstance(value, str) for value in values)
    figure = NotebookFigure(figsize=(11, 7.5), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        for at, (name, points) in enumerate(lines.items()):
            _line(axes, at, name, [(x if numeric else values.index(x), value_in(grid, e, key)) for x, e in points])
        _scale(axes, title, axis, values, numeric=numeric)
        _label_ticks(axes.yaxis, seconds if key == "ttft" else _number_text)
        if numeric:
            _label_ticks(axes.xaxis, _number_text)
    handles, names = axes.get_legend_handles_labels()
    if len(lines) > 1:
        printed_names = names[:MAX_NAMED]
        legend = figure.legend(
            handles[:MAX_NAMED], printed_names, loc="outside lower center", ncols=3, fontsize=8, frameon=False
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        if len(names) > MAX_NAMED:
            legend.set_title(f"the first {MAX_NAMED} of {len(names)} lines")
    return figure


def _line(axes: Any, at: int, name: str, points: Sequence[tuple[Any, Any]]) -> None:
    """Draw a line through all points that have a value.

    Args:
        axes: Matplotlib axes.
        at: Index of the line, which determines its colour and marker.
        name: Label of the line.
        points: (horizontal position, value) of each point. The value may be None.
    """
    sorted_points = sorted((x, y) for x, y in points if y is not None)
    style = {"color": PLOT_SERIES[at % len(PLOT_SERIES)], "marker": MARKERS[at // len(PLOT_SERIES) % len(MARKERS)]}
    axes.plot(
        [x for x, _ in sorted_points],
        [y for _, y in sorted_points],
        label=name[:LONGEST_NAME],
        markersize=4.5,
        linewidth=1,
        **style,
    )


def _scale(axes: Any, title: str, axis: str, values: Sequence[Any], *, numeric: bool) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(axis, fontsize=9, parse_math=False)
    if not numeric:
        axes.set_xticks(range(len(values)), [str(value)[:LONGEST_NAME] for value in values])
        for text in axes.get_xticklabels():
            text.set_parse_math(False)
    elif min(values) > 0 and max(values) >= WIDE * min(values):
        axes.set_xscale("log")
    heights = [y for line in axes.lines for y in line.get_ydata()]
    if heights and max(heights) > WIDE * min(heights) > 0:
        axes.set_yscale("log")
    else:
        axes.margins(y=0.1)
        axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.3)


def _label_ticks(axis: Any, text: Callable[[float], str]) -> None:
    """Label the ticks of a matplotlib axis; a logarithmic axis has them at 1, 2 and 5 times powers of ten.

    Args:
        axis: The axis.
        text: Function that formats a positive value.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    if axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value) if value else "0")


def _number_text(value: float) -> str:
    """Return a number with commas between thousands."""
    return f"{value:,.10g}"
