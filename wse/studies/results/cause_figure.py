"""Figures of the cycles of a token: by cause, for the whole token and for each kind of op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from wse.report.colours import CAUSES
from wse.studies.results.phases import Cause, CyclesBy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def causes_figure(rows: Mapping[str, CyclesBy], title: str) -> Figure:
    """A bar of cycles for each row, by cause."""
    from wse.report.figure import NotebookFigure

    figure = NotebookFigure(figsize=(7, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes: Any = figure.subplots()
    left = [0.0] * len(rows)
    for cause in get_args(Cause):
        widths = [by.get(cause, 0.0) for by in rows.values()]
        if any(widths):
            axes.barh(list(rows), widths, left=left, color=CAUSES[cause].light, label=cause)
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("cycles")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_title(title)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
