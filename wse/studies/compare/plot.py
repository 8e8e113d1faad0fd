"""Plots of a comparison: speed and cost over wafer count, or two runs by cause and op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.reports.colours import PLOT_SERIES
from wse.studies.compare.tables import link_text
from wse.tracing.query.two_traces.changes import Change
from wse.tracing.query.two_traces.compare import TracesResult
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.compare.result import CompareResult

MARKERS: Final = ("o", "v", "^", "s", "D", "P", "X", "<", ">", "p", "*", "h")
PANELS: Final = (
    ("tokens_per_s_per_user", "tokens/s of one user"),
    ("tokens_per_s", "tokens/s of all users"),
    ("usd_per_million_tokens", "USD for a million tokens of all users"),
)
"""Row fields to plot, with their titles."""
BARS: Final = ("cause", "op")
"""Kinds of changes between two runs to plot."""
LONGEST_TITLE: Final = 110
LONGEST_NAME: Final = 30
WIDE: Final = 20
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


def as_png(result: CompareResult | TracesResult) -> bytes:
    """Plot a comparison of wafers or of two recorded runs as a PNG image."""
    from wse.reports.output_file import png_of

    return png_of(runs_figure(result) if isinstance(result, TracesResult) else figure_of(result))


def figure_of(result: CompareResult) -> Figure:
    """Plot speed per user, throughput and cost over the number of wafers."""
    from wse.reports.figure import NotebookFigure

    rows = result.possible
    mappings = list(dict.fromkeys(row.layout for row in rows))
    links = list(dict.fromkeys(link_text(row) for row in rows if link_text(row)))
    figure = NotebookFigure(figsize=(14, 5), layout="constrained")
    panels = figure.subplots(1, len(PANELS))
    for axes, (key, label) in zip(panels, PANELS, strict=True):
        for number, mapping in enumerate(mappings):
            _lines(
                axes,
                key,
                [row for row in rows if row.layout == mapping],
                links,
                PLOT_SERIES[number % len(PLOT_SERIES)],
            )
        _scale(axes, label, sorted({row.wafers for row in rows}))
    figure.suptitle(_shortened_title(result.title), fontsize=10, parse_math=False)
    figure.legend(handles=_legend(mappings, links), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


def runs_figure(result: TracesResult) -> Figure:
    """Plot the cycle counts of two runs side by side.

    Each phase (such as prefill or decode) has a row of panels: cycles by cause, and cycles by op.
    """
    from wse.reports.figure import NotebookFigure

    phases = list(result.changes)
    figure = NotebookFigure(figsize=(13, 4.2 * len(phases)))
    panels = figure.subplots(len(phases), len(BARS), squeeze=False)
    for line, phase in zip(panels, phases, strict=True):
        for axes, kind in zip(line, BARS, strict=True):
            _bars(axes, [change for change in result.changes[phase] if change.kind == kind])
            axes.set_title(f"{phase}: cycles by {kind}", fontsize=9)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def _lines(axes: Any, key: str, rows: Sequence[ComparisonRow], links: Sequence[str], colour: str) -> None:
    """Draw one field of a mapping's rows, with one line per inter-wafer link.

    A row with a single wafer has no link, so it is part of every line.

    Args:
        axes: Axes to draw on.
        key: Name of the field.
        rows: Rows of the mapping.
        links: Descriptions of the links.
        colour: Colour of the mapping.
    """
    rows_without_link = [row for row in rows if not link_text(row)]
    for number, link in enumerate(links):
        points = sorted(
            (*rows_without_link, *(row for row in rows if link_text(row) == link)), key=lambda row: row.wafers
        )
        _line(axes, key, points, colour, MARKERS[number % len(MARKERS)])
    if not links:
        _line(axes, key, rows_without_link, colour, MARKERS[0])


def _line(axes: Any, key: str, rows: Sequence[ComparisonRow], colour: str, mark: str) -> None:
    """Draw a line of a field's values over the number of wafers, with a marker for each row."""
    wafer_counts, values = [row.wafers for row in rows], [getattr(row, key) for row in rows]
    axes.plot(wafer_counts, values, color=colour, marker=mark, markersize=5, linewidth=0.9, alpha=0.8)


def _scale(axes: Any, label: str, wafers: Sequence[int]) -> None:
    """Set up the axes of a plot over the number of wafers.

    The horizontal axis is logarithmic. The vertical axis is also logarithmic if the largest value
    is more than `WIDE` times the smallest. Otherwise it starts at 0.

    Args:
        axes: Axes that already contain the lines.
        label: Title.
        wafers: Wafer counts, which become the ticks of the horizontal axis.
    """
    axes.set(xscale="log", xlabel="wafers", title=label)
    axes.title.set_fontsize(9)
    axes.set_xticks(wafers, [f"{count:,}" for count in wafers])
    axes.xaxis.minorticks_off()
    values = [value for line in axes.lines for value in line.get_ydata()]
    if max(values) > WIDE * min(values) > 0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    for apply in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        apply(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8, which="both")
    axes.grid(visible=True, linewidth=0.3)


def _legend(mappings: Sequence[str], links: Sequence[str]) -> list[Any]:
    """Return the matplotlib handles of the legend.

    Each mapping has its own colour, and each inter-wafer link has its own marker.
    """
    from matplotlib.lines import Line2D

    colours = [
        Line2D([], [], color=PLOT_SERIES[number % len(PLOT_SERIES)], label=mapping)
        for number, mapping in enumerate(mappings)
    ]
    marks = [
        Line2D([], [], color="grey", linestyle="", marker=MARKERS[number % len(MARKERS)], label=link)
        for number, link in enumerate(links)
    ]
    return [*colours, *marks]


def _shortened_title(text: str) -> str:
    """Truncate a title to at most `LONGEST_TITLE` characters."""
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"


def _bars(axes: Any, changes: Sequence[Change]) -> None:
    """Draw two bars for each change: the cycle counts of the first and of the second run.

    Args:
        axes: Axes to draw on.
        changes: Changes between the runs, from top to bottom.
    """
    for number, (key, label) in enumerate((("first", "first run"), ("second", "second run"))):
        places = [place + 0.4 * number for place in range(len(changes))]
        values = [getattr(change, key) for change in changes]
        axes.barh(places, values, height=0.38, color=PLOT_SERIES[number], label=label)
    names = [change.name[:LONGEST_NAME] for change in changes]
    axes.set_yticks([place + 0.2 for place in range(len(changes))], names, fontsize=8)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="x", linewidth=0.3)
