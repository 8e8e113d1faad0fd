"""Plot of all prediction errors, with one line per kind of measurement."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wse.reports.colours import PLOT_SERIES
from wse.reports.number_text import count
from wse.studies.validate.kinds import GPUS, SERVICES
from wse.studies.validate.result import CALIBRATED, ValidationRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.validate.result import Validation

BAND_PCT: Final = 10.0
"""Errors up to this size are drawn on a linear scale, larger errors on a logarithmic scale."""
TICKS_PCT: Final = (-100, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100)
LONGEST_NAME: Final = 34
LINE_INCHES: Final = 0.23


class _Line(NamedTuple):
    """One line of the plot: the errors, in percent, of similar measurements on one machine.

    Attributes:
        name: What was measured.
        where: The machine.
        errors_pct: Errors of all rows.
        intervals_pct: Error intervals, for rows whose prediction has an interval: the errors of the
            prediction if the measured value were at the lower or the upper end of the interval.
    """

    name: str
    where: str
    errors_pct: list[float]
    intervals_pct: list[tuple[float, float]]


def figure_of(validation: Validation) -> Figure:
    """Draw the signed errors of all predictions, in percent.

    The plot has one horizontal line of points for each kind of measurement and machine. For
    services and GPUs, it has one line per model instead.
    """
    from wse.reports.figure import NotebookFigure

    lines = _lines(validation.rows)
    figure = NotebookFigure(figsize=(11, 1.6 + LINE_INCHES * max(len(lines), 3)), layout="constrained")
    axes = figure.subplots()
    colours = dict(zip(dict.fromkeys(line.where for line in lines), PLOT_SERIES * 2, strict=False))
    for place, line in enumerate(lines):
        _draw(axes, place, line, colours[line.where])
    _finish(axes, lines)
    return figure


def _lines(rows: Sequence[ValidationRow]) -> list[_Line]:
    """Group the errors by line of the plot, and sort the lines by machine, with GPUs last.

    A line contains the errors of similar measurements. Measurements that only repeat a formula or
    constant of the models are omitted.
    """
    lines: dict[tuple[str, str], _Line] = {}
    for row in rows:
        if row.error_pct is not None and row.method not in CALIBRATED:
            is_model = row.where == GPUS or row.kind == SERVICES
            name = row.kernel if is_model else row.kind or row.kernel
            machine = row.where or ""
            line = lines.setdefault((name, machine), _Line(name, machine, [], []))
            line.errors_pct.append(row.error_pct)
            if row.predicted and row.low and row.high:
                ends_pct = 100 * (row.predicted / row.high - 1), 100 * (row.predicted / row.low - 1)
                line.intervals_pct.append(ends_pct)
    all_lines = list(lines.values())
    machines = list(dict.fromkeys(line.where for line in sorted(all_lines, key=lambda line: line.where == GPUS)))
    return sorted(all_lines, key=lambda line: machines.index(line.where))


def _draw(axes: Any, place: int, line: _Line, colour: str) -> None:
    """Draw the errors of one line as points with their median, and their statistics as text.

    A grey bar extends from the median of the lower ends to the median of the upper ends of the 90 %
    intervals.

    Args:
        axes: Matplotlib axes.
        place: Vertical position of the line.
        line: The line.
        colour: Colour of the points.
    """
    middle = median(line.errors_pct)
    if line.intervals_pct:
        left, right = (median(ends) for ends in zip(*line.intervals_pct, strict=True))
        axes.barh(place, right - left, left=left, height=0.7, color="#dddddd", zorder=0)
    axes.scatter(line.errors_pct, [place] * len(line.errors_pct), s=12, alpha=0.35, linewidths=0, color=colour)
    axes.plot([middle, middle], [place - 0.38, place + 0.38], color="black", linewidth=1.6, zorder=3)
    sizes = [abs(error) for error in line.errors_pct]
    text = f"{count(len(sizes)):>6}{median(sizes):>9.1f} %{max(sizes):>9.1f} %"
    axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center", family="monospace", fontsize=8)


def _finish(axes: Any, lines: Sequence[_Line]) -> None:
    """Set the scales and axis labels of the plot, and write a heading above the statistics."""
    names = [line.name if len(line.name) <= LONGEST_NAME else line.name[: LONGEST_NAME - 1] + "…" for line in lines]
    labels = [", ".join(part for part in (name, line.where) if part) for name, line in zip(names, lines, strict=True)]
    axes.set_yticks(range(len(lines)), labels, fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xscale("symlog", linthresh=BAND_PCT)
    axes.set_xticks(TICKS_PCT, [f"{tick:+d}" if tick else "0" for tick in TICKS_PCT], fontsize=8)
    axes.minorticks_off()
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    for band in (-BAND_PCT, BAND_PCT):
        axes.axvline(band, color="grey", linewidth=0.7, linestyle="--", zorder=1)
    axes.grid(visible=True, axis="y", linewidth=0.3)
    axes.set_xlabel(
        "error of the prediction in %: below 0 it is too small; black: median; grey: 90 % interval", fontsize=9
    )
    heading = f"{'rows':>6}{'median':>11}{'worst':>11}"
    font = {"family": "monospace", "fontsize": 8, "fontweight": "bold"}
    axes.text(1.01, 1.01, heading, transform=axes.transAxes, va="bottom", **font)
