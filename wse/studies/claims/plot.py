"""Plots of the curves of claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.claims.result import Curves

DPI: Final = 110


def image_of(curves: Curves, title: str) -> bytes:
    """Draw curves and return the plot as the content of a PNG file."""
    from wse.reports.figure import png_of

    return png_of(_figure_of(curves, title), DPI)


def _figure_of(curves: Curves, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    axes.set(xlabel=curves.x, ylabel=curves.y, title=title)
    if curves.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if curves.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return figure
