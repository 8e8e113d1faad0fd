"""Two traces side by side: bars of cycles by cause and by op as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse.inspect.query.changes import Change
from wse.inspect.query.compare import TracesResult
from wse.studies.compare.plot import COLOURS

BARS: Final = ("cause", "op")
LONGEST_NAME: Final = 30


def as_png(result: TracesResult) -> bytes:
    """For each phase, cycles by cause and by op of both runs, where they differ: a PNG image."""
    from wse.report.figure import NotebookFigure, png_of

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
    return png_of(figure)


def _bars(axes: Any, changes: Sequence[Change]) -> None:
    """Both runs beside each other for each name, the largest change on top."""
    for number, (key, label) in enumerate((("first", "first run"), ("second", "second run"))):
        places = [place + 0.4 * number for place in range(len(changes))]
        values = [getattr(change, key) for change in changes]
        axes.barh(places, values, height=0.38, color=COLOURS[number], label=label)
    names = [change.name[:LONGEST_NAME] for change in changes]
    axes.set_yticks([place + 0.2 for place in range(len(changes))], names, fontsize=8)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="x", linewidth=0.3)
