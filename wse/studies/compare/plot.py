"""The plot of a comparison: tokens a second over wafers, of one user and of all; a colour a mapping, a mark a link."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

from wse.studies.compare.table import link_text, title

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS: Final = ("o", "v", "^", "s", "D", "P", "X", "<", ">", "p", "*", "h")
PANELS: Final = (
    ("tokens_per_s_per_user", "tokens/s of a user alone"),
    ("tokens_per_s", "tokens/s of all users"),
    ("usd_per_million_tokens", "USD for a million tokens of all users"),
)
LONGEST_TITLE: Final = 110
WIDE: Final = 20  # the largest over the smallest value from which on an axis is logarithmic

Row = dict[str, Any]


def as_png(report: dict[str, Any]) -> bytes:
    """A report's rows as a PNG image."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    rows = [row for row in report["rows"] if "reason" not in row]
    mappings = list(dict.fromkeys(row["mapping"] for row in rows))
    links = list(dict.fromkeys(link_text(row) for row in rows if link_text(row)))
    figure, panels = plt.subplots(1, len(PANELS), figsize=(14, 5), layout="constrained")
    try:
        for axes, (key, label) in zip(panels, PANELS, strict=True):
            for number, mapping in enumerate(mappings):
                mine = [row for row in rows if row["mapping"] == mapping]
                _lines(axes, key, mine, links, COLOURS[number % len(COLOURS)])
            _scale(axes, label, sorted({row["wafers"] for row in rows}))
        figure.suptitle(_short(title(report)), fontsize=10, parse_math=False)
        figure.legend(handles=_legend(mappings, links), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
        written = io.BytesIO()
        figure.savefig(written, dpi=110, metadata={"Software": None})
    finally:
        plt.close(figure)
    return written.getvalue()


def _lines(axes: Any, key: str, rows: Sequence[Row], links: Sequence[str], colour: str) -> None:
    """A mapping's rows: a line for each link, from the one wafer that needs none where there is one."""
    alone = [row for row in rows if not link_text(row)]
    for number, link in enumerate(links):
        mine = sorted((*alone, *(row for row in rows if link_text(row) == link)), key=lambda row: int(row["wafers"]))
        across = [row["wafers"] for row in mine]
        mark = MARKERS[number % len(MARKERS)]
        axes.plot(across, [row[key] for row in mine], color=colour, marker=mark, markersize=5, linewidth=0.9, alpha=0.8)
    if not links:
        axes.plot([row["wafers"] for row in alone], [row[key] for row in alone], color=colour, marker=MARKERS[0])


def _scale(axes: Any, label: str, wafers: Sequence[int]) -> None:
    """Wafers on a logarithmic axis; values from 0, or on a logarithmic axis where they differ widely."""
    axes.set(xscale="log", xlabel="wafers", title=label)
    axes.title.set_fontsize(9)
    axes.set_xticks(wafers, [f"{count:,}" for count in wafers])
    axes.xaxis.minorticks_off()
    values = [value for line in axes.lines for value in line.get_ydata()]
    if max(values) > WIDE * min(values) > 0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.3)


def _legend(mappings: Sequence[str], links: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    colours = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], label=mapping) for number, mapping in enumerate(mappings)
    ]
    marks = [
        Line2D([], [], color="grey", linestyle="", marker=MARKERS[number % len(MARKERS)], label=link)
        for number, link in enumerate(links)
    ]
    return [*colours, *marks]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"
