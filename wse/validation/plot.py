"""The scatter plot of validation: predicted against measured, both on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.report.colours import PLOT_SERIES
from wse.validation.result import GroupErrors, Validation, ValidationRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_GROUPS: Final = 13
BAND: Final = 0.1  # the lines beside the diagonal
MARKERS: Final = ("o", "^", "s", "D", "v", "P", "X")
WIDEST_SOURCE: Final = 30
WIDEST_KERNEL: Final = 30


def group_name(group: GroupErrors) -> str:
    """Source and kernel of a summary's group, short enough for a legend."""
    source = group.source.split(" (")[0].removeprefix("github:").removeprefix("github ")
    return f"{_short(source, WIDEST_SOURCE)}: {_short(group.kernel, WIDEST_KERNEL)}"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def plottable_rows(rows: Sequence[ValidationRow]) -> list[ValidationRow]:
    """The rows that are predicted and have a place on logarithmic axes."""
    return [row for row in rows if row.predicted and row.measured]


def figure_of(validation: Validation) -> Figure:
    """Predicted over measured, and errors over measured, with a colour and a mark for each source and kernel."""
    from wse.report.figure import NotebookFigure

    placed = plottable_rows(validation.rows)
    groups = [g for g in validation.summary.by_source_and_kernel if g.predicted]
    groups.sort(key=lambda g: -g.predicted)
    figure = NotebookFigure(figsize=(12, 7.5), layout="constrained")
    ratio_axes, error_axes = figure.subplots(1, 2)
    for number, group in enumerate(groups[:MOST_GROUPS]):
        rows = [row for row in placed if _is_of(row, group)]
        label = f"{group_name(group)} ({group.predicted}, median {group.median_abs_error_pct or 0:.1f} %)"
        _scatter((ratio_axes, error_axes), rows, label, number)
    remaining_rows = [row for row in placed if any(_is_of(row, group) for group in groups[MOST_GROUPS:])]
    if remaining_rows:
        _scatter((ratio_axes, error_axes), remaining_rows, f"others ({len(remaining_rows)})", MOST_GROUPS)
    values = [value for row in placed for value in (row.measured or 0, row.predicted or 0)]
    ends = (min(values, default=1.0) / 2, max(values, default=10.0) * 2)
    _plot_ratio(ratio_axes, ends)
    _errors(error_axes, ends)
    figure.legend(
        *ratio_axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7.5, frameon=False
    )
    return figure


def _plot_ratio(axes: Any, ends: tuple[float, float]) -> None:
    """Predicted over measured."""
    axes.plot(ends, ends, color="black", linewidth=0.8, zorder=1)
    for factor in (1 - BAND, 1 + BAND):
        axes.plot(ends, [factor * end for end in ends], color="grey", linewidth=0.7, linestyle="--", zorder=1)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel="measured, in each row's own unit", ylabel="predicted")
    axes.grid(visible=True, linewidth=0.3)


def _errors(axes: Any, ends: tuple[float, float]) -> None:
    """Signed errors over measured; the scale is linear up to the dashed lines and logarithmic beyond."""
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    for error in (-100 * BAND, 100 * BAND):
        axes.axhline(error, color="grey", linewidth=0.7, linestyle="--", zorder=1)
    axes.set_yscale("symlog", linthresh=100 * BAND)
    axes.set(xscale="log", xlim=ends, xlabel="measured", ylabel="error in %")
    axes.set_yticks([-100, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100], minor=False)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f}" if value else "0")
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.3)


def _is_of(row: ValidationRow, group: GroupErrors) -> bool:
    return (row.source, row.kernel) == (group.source, group.kernel)


def _scatter(both: tuple[Any, Any], rows: Sequence[ValidationRow], label: str, number: int) -> None:
    measured = [row.measured for row in rows]
    for axes, heights in zip(both, ([row.predicted for row in rows], [row.error_pct for row in rows]), strict=True):
        axes.scatter(
            measured,
            heights,
            s=14,
            alpha=0.7,
            linewidths=0,
            color=PLOT_SERIES[number % len(PLOT_SERIES)],
            marker=MARKERS[(number + number // len(PLOT_SERIES)) % len(MARKERS)],
            label=label,
            zorder=2,
        )
