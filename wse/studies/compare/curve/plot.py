"""Plot of wafers and GPUs: cost and energy per token over speed per user, on logarithmic axes.

A line connects the operating points of one machine. Machines with a row on the frontier are
coloured, and all other machines are grey. Shaded areas show the ranges of prices and powers.
Published speeds without a price are shown as ticks at the upper edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.reports.colours import PLOT_SERIES
from wse.reports.terminal import printable
from wse.serving.goal import FAST_TIMES
from wse.studies.compare.curve.row import FAST, PLAIN, CurveRow
from wse.studies.compare.machine import WAFER
from wse.studies.compare.plot import MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.compare.curve.result import CurveResult
    from wse.studies.results.published import PublicPoint

PANELS: Final = (
    ("usd_per_million_tokens", "USD for a million tokens of all users"),
    ("joules_per_token", "joules of a token"),
)
"""Row fields to plot, with their titles."""
SPEED: Final = "tokens/s of one user"
TIER_MARKS: Final = {PLAIN: "s", FAST: "*"}
GREY: Final = "#9aa0a6"


def curve_as_png(result: CurveResult) -> bytes:
    """Plot a comparison of wafers and GPUs as a PNG image."""
    from wse.reports.output_file import png_of

    return png_of(curve_figure(result))


def curve_figure(result: CurveResult) -> Figure:
    """Plot the cost and energy per token over the speed per user."""
    from wse.reports.figure import NotebookFigure

    figure = NotebookFigure(figsize=(14, 6.6), layout="constrained")
    best = best_machines(result.rows)
    for axes, (key, label) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for machine in dict.fromkeys(row.machine for row in result.rows):
            rows = [row for row in result.rows if row.machine == machine]
            if machine in best:
                _machine(axes, key, rows, best.index(machine))
            else:
                axes.plot(*_points(rows, key), color=GREY, marker=".", linewidth=0.7, alpha=0.7, zorder=1)
        scale(axes, label, SPEED)
        _public(axes, key, result.public)
    figure.suptitle(result.title, fontsize=10, parse_math=False)
    figure.legend(handles=_legend(result, best), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def best_machines(rows: Sequence[CurveRow]) -> list[str]:
    """Return the names of the machines to draw in colour, in the order of the rows.

    These machines have a row on the frontier of speed and cost: no row of the same group is at
    least as fast and at most as expensive (`CurveRow.best`).
    """
    return list(dict.fromkeys(row.machine for row in rows if row.best))


def _points(rows: Sequence[CurveRow], key: str) -> tuple[list[float], list[float]]:
    """Return the x and y coordinates of a plotted line: speeds per user, and values of a field.

    Args:
        rows: Rows of a machine, one for each point of the line.
        key: Name of the row field on the vertical axis.
    """
    return [row.tokens_per_s_per_user for row in rows], [getattr(row, key) for row in rows]


def _machine(axes: Any, key: str, rows: Sequence[CurveRow], number: int) -> None:
    """Draw a machine's line, with its range of cost or energy and its service tiers.

    Args:
        axes: Axes to draw on.
        key: Row field on the vertical axis.
        rows: Operating points of the machine.
        number: Index of the machine, which determines its colour and marker.
    """
    colour = PLOT_SERIES[number % len(PLOT_SERIES)]
    speeds, values = _points(rows, key)
    axes.plot(
        *(speeds, values),
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        markersize=4,
        linewidth=1.4,
        linestyle="-" if rows[0].kind == WAFER else "--",
    )
    low, high = ([getattr(row, f"{key}_{end}") for row in rows] for end in ("low", "high"))
    axes.fill_between(speeds, low, high, color=colour, alpha=0.07, linewidth=0)
    for row in rows:
        for tier in row.tiers:
            axes.plot(
                row.tokens_per_s_per_user,
                getattr(row, key),
                marker=TIER_MARKS[tier],
                markersize=16 if tier == FAST else 11,
                markerfacecolor="none",
                markeredgecolor=colour,
                markeredgewidth=1.6,
            )


def _public(axes: Any, key: str, public: Sequence[PublicPoint]) -> None:
    """Draw published speeds at their prices, or at the upper edge if they have no price."""
    for point in public:
        price = point.usd_per_million_tokens if key == PANELS[0][0] else None
        if price is None:
            axes.plot(
                *(point.tokens_per_s_per_user, 0.985),
                color="black",
                marker="|",
                markersize=9,
                transform=axes.get_xaxis_transform(),
            )
        else:
            axes.plot(point.tokens_per_s_per_user, price, color="black", marker="D", markersize=6, linestyle="")
            low, high = axes.get_xlim()
            right_half = point.tokens_per_s_per_user > math.sqrt(low * high)
            axes.annotate(
                printable(point.system),
                (point.tokens_per_s_per_user, price),
                textcoords="offset points",
                xytext=(-7, 4) if right_half else (7, 4),
                horizontalalignment="right" if right_half else "left",
                fontsize=7,
                parse_math=False,
            )


def scale(axes: Any, label: str, x_label: str) -> None:
    """Set up axes with logarithmic scales, ticks labelled with plain numbers, a grid and a title.

    Args:
        axes: Axes to set up.
        label: Title.
        x_label: Label of the horizontal axis.
    """
    axes.set(xscale="log", yscale="log", xlabel=x_label, title=label)
    axes.title.set_fontsize(9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(lambda value, _: f"{value:,.10g}" if f"{value:e}"[0] in "25" else "")
    axes.tick_params(labelsize=8, which="both")
    axes.tick_params(labelsize=6, which="minor")
    axes.grid(visible=True, linewidth=0.3)


def _legend(result: CurveResult, best: Sequence[str]) -> list[Any]:
    """Return the matplotlib legend handles: machines, service tiers and published speeds.

    Args:
        result: The comparison to draw.
        best: Descriptions of the machines to draw in colour.
    """
    from matplotlib.lines import Line2D

    kinds = {row.machine: row.kind for row in result.rows}
    lines = [
        Line2D(
            *([], []),
            color=PLOT_SERIES[number % len(PLOT_SERIES)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="-" if kinds[machine] == WAFER else "--",
            label=machine,
        )
        for number, machine in enumerate(best)
    ]
    if len(best) < len(kinds):
        lines.append(Line2D([], [], color=GREY, marker=".", linewidth=0.7, label="other wafers and mappings"))
    speed = result.inputs["plain_speed"]
    for tier, text in (
        (PLAIN, f"plain tier: {speed:g} tokens/s"),
        (FAST, f"fast tier: {FAST_TIMES * speed:g} tokens/s"),
    ):
        if any(tier in row.tiers for row in result.rows):
            mark = TIER_MARKS[tier]
            lines.append(
                Line2D([], [], color="grey", linestyle="", marker=mark, markersize=10, fillstyle="none", label=text)
            )
    if any(point.usd_per_million_tokens is not None for point in result.public):
        lines.append(Line2D([], [], color="black", linestyle="", marker="D", label="published speed and price"))
    if any(point.usd_per_million_tokens is None for point in result.public):
        lines.append(Line2D([], [], color="black", linestyle="", marker="|", label="published speed without a price"))
    return lines
