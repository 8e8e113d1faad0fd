"""The plot of ``wse pattern``: cycles over words, with one panel per collective and line length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.reports.colours import PLOT_SERIES
from wse.reports.terminal import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.pattern.result import PatternCase

MARKERS: Final = "osD^vPX"
PANEL_INCHES: Final = (5.2, 4.2)


def pattern_figure(cases: Sequence[PatternCase], collectives: Sequence[str], machine: str) -> Figure:
    """Plot the cycle counts of communication patterns with their lower bounds.

    There is one row of panels per collective operation and one column per line length. Patterns
    with a fault are left out.

    Args:
        cases: The compared cases.
        collectives: Names of the collective operations, such as ``all_reduce``.
        machine: Name of the wafer and software, for the title.
    """
    from wse.reports.figure import NotebookFigure

    cases = [case for case in cases if case.fault is None]
    lengths = sorted({case.pes for case in cases})
    rows, cols = max(1, len(collectives)), max(1, len(lengths))
    figure = NotebookFigure(figsize=(PANEL_INCHES[0] * cols, PANEL_INCHES[1] * rows), layout="constrained")
    panels = figure.subplots(rows, cols, squeeze=False)
    for i, collective in enumerate(collectives):
        for j, pes in enumerate(lengths):
            panel_cases = [case for case in cases if case.collective == collective and case.pes == pes]
            _panel(panels[i, j], panel_cases, f"{collective.replace('_', '-')} of {pes} PEs")
    figure.suptitle(f"Patterns on a line of {machine}", parse_math=False)
    return figure


def _panel(axes: Any, cases: list[PatternCase], title: str) -> None:
    """Plot the cycle count of each pattern, and their lower bound, against the number of words.

    Each pattern is a line. The lower bound is dotted. If it differs between patterns, the lowest
    one is drawn.

    Args:
        axes: Matplotlib axes of the panel.
        cases: Cases with the same collective operation and number of PEs.
        title: Title of the panel.
    """
    names = list(dict.fromkeys(case.pattern for case in sorted(cases, key=lambda case: case.pattern)))
    for number, name in enumerate(names):
        pattern_cases = [case for case in cases if case.pattern == name]
        axes.plot(
            [case.words for case in pattern_cases],
            [case.cycles for case in pattern_cases],
            color=PLOT_SERIES[number % len(PLOT_SERIES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            label=printable(name),
        )
    lowest_bounds = {
        case.words: case.bound_cycles for case in sorted(cases, key=lambda case: -(case.bound_cycles or 0))
    }
    axes.plot(
        sorted(lowest_bounds),
        [lowest_bounds[words] for words in sorted(lowest_bounds)],
        color="grey",
        linestyle=":",
        label="lowest bound",
    )
    axes.set(xscale="log", yscale="log", xlabel="words of each PE", ylabel="cycles")
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.grid(visible=True, linewidth=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(lambda value, _: f"{value:,.10g}" if f"{value:e}"[0] in "25" else "")
    for text in axes.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)
