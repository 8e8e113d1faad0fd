"""Two traces side by side: bars of cycles by cause and by op as PNG, and the page with tables and bars."""

from __future__ import annotations

import io
from typing import Any, Final

from wse.report.changes_table import HEADER, change_cells
from wse.studies.compare.page import page, tables
from wse.studies.compare.plot import COLOURS
from wse.studies.compare.table import limits
from wse.studies.compare.traces_table import CHANGED, runs

Report = dict[str, Any]

BARS: Final = ("cause", "op")
LONGEST_NAME: Final = 30


def as_png(report: Report) -> bytes:
    """For each phase, cycles by cause and by op of both runs, where they differ: a PNG image."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    phases = list(report["changes"])
    figure, panels = plt.subplots(len(phases), len(BARS), figsize=(13, 4.2 * len(phases)), squeeze=False)
    try:
        for line, phase in zip(panels, phases, strict=True):
            for axes, kind in zip(line, BARS, strict=True):
                changes = [change for change in report["changes"][phase] if change["kind"] == kind]
                _bars(axes, changes)
                axes.set_title(f"{phase}: cycles by {kind}", fontsize=9)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=2, fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0.04, 1, 1))
        written = io.BytesIO()
        figure.savefig(written, dpi=110, metadata={"Software": None})
    finally:
        plt.close(figure)
    return written.getvalue()


def as_html(report: Report) -> bytes:
    """The page, UTF-8."""
    told = runs(report)
    return page(
        title=f"{report['rows'][0]['model']}: two runs",
        note="The same Program." if report["same_program"] else "",
        verdict=[f"{number}: {of}" for number, of in enumerate(told, start=1)],
        png=as_png(report),
        tables=[
            *tables(report["rows"]),
            *(
                {
                    "title": CHANGED[phase],
                    "rows": [list(zip(HEADER, cells, strict=True)) for cells in change_cells(changes)],
                    "header": HEADER,
                    "notes": (),
                }
                for phase, changes in report["changes"].items()
            ),
        ],
        lists=[("What limits a user's tokens", limits(report["rows"]))],
    )


def _bars(axes: Any, changes: list[Report]) -> None:
    """Both runs beside each other for each name, the largest change on top."""
    for number, (key, label) in enumerate((("first", "first run"), ("second", "second run"))):
        places = [place + 0.4 * number for place in range(len(changes))]
        values = [change[key] for change in changes]
        axes.barh(places, values, height=0.38, color=COLOURS[number], label=label)
    names = [change["name"][:LONGEST_NAME] for change in changes]
    axes.set_yticks([place + 0.2 for place in range(len(changes))], names, fontsize=8)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="x", linewidth=0.3)
