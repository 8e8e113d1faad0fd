"""Tornado plot of a what-if study: one bar per change, from the old to the new speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.reports.colours import PLOT_SERIES
from wse.reports.number_text import count, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.what_if.result import WhatIfResult, WhatIfRow

FASTER, SLOWER = PLOT_SERIES[0], PLOT_SERIES[1]
INCHES_PER_BAR: Final = 0.42
LONGEST_NAME: Final = 40


def tornado(result: WhatIfResult) -> Figure:
    """Draw a tornado plot: a bar chart of how each change affects the tokens/s per user.

    Each bar extends from the speed without the change to the speed with it. The largest effect is
    at the top. If a constant is changed in both directions, both bars are on the same line. Changes
    with which the model cannot run are omitted.
    """
    from wse.reports.figure import NotebookFigure

    base = result.base.tokens_per_s_per_user or 0.0
    by_name: dict[str, list[WhatIfRow]] = {}
    for row in result.changes:
        if row.reason is None:
            by_name.setdefault(row.change, []).append(row)
    figure = NotebookFigure(figsize=(9, 1.6 + INCHES_PER_BAR * max(1, len(by_name))), layout="constrained")
    axes = figure.subplots()
    speeds = [row.tokens_per_s_per_user or 0.0 for rows in by_name.values() for row in rows]
    low, high = min([base, *speeds]), max([base, *speeds])
    room = (high - low or base) * 0.02
    for place, rows in enumerate(by_name.values()):
        for row in rows:
            speed = row.tokens_per_s_per_user or 0.0
            axes.barh(place, speed - base, left=base, height=0.62, color=FASTER if speed >= base else SLOWER)
            label_position = (speed + room, "left") if speed >= base else (speed - room, "right")
            axes.text(label_position[0], place, _label(row, result.base), ha=label_position[1], va="center", fontsize=8)
    axes.axvline(base, color="black", linewidth=0.9)
    axes.set_yticks(range(len(by_name)), [name[:LONGEST_NAME] for name in by_name], fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelsize=8, axis="x")
    axes.set_xlabel(f"tokens/s a user; {count(base)} as it is", fontsize=9)
    axes.set_title(result.title, fontsize=9, parse_math=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def _label(row: WhatIfRow, base: WhatIfRow) -> str:
    """Return a bar's label: the changed value, the new speed, and its ratio to the old speed.

    If the wafer count changes too, the label states the new count.

    Args:
        row: The estimate with the change.
        base: The estimate for the unchanged machine.
    """
    wafers = f", {plural(row.wafers, 'wafer')}" if row.wafers is not None and row.wafers != base.wafers else ""
    return f"{row.value}: {count(row.tokens_per_s_per_user or 0.0)}, ×{row.speed_factor:.3g}{wafers}"
