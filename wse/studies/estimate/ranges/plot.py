"""Tornado chart of the uncertain constants of an estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.reports.colours import PLOT_SERIES
from wse.reports.number_text import seconds
from wse.studies.estimate.ranges.result import with_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.studies.estimate.ranges.result import ContributionResult, UncertaintyResult

BELOW, ABOVE = PLOT_SERIES[0], PLOT_SERIES[1]
MAX_BARS: Final = 16
NO_EFFECT: Final = 1e-4
"""Relative change up to which a constant has no bar."""


def tornado(uncertainty: UncertaintyResult) -> Figure:
    """Draw a tornado chart: for each uncertain constant, a bar that shows its effect on TPOT.

    A bar connects the time per output token at the low end of the constant's range with the time at
    the high end. If no token is decoded, bars show the time to first token. The constant that
    contributes most to the variance is at the top.

    Args:
        uncertainty: Effects of all constants and model errors, with the largest effect first.
    """
    from wse.reports.figure import NotebookFigure

    name, base = ("TTFT", uncertainty.ttft_s) if uncertainty.tpot_s is None else ("TPOT", uncertainty.tpot_s)
    with_effect = [
        row for row in uncertainty.contributions if any(abs(end / base - 1) > NO_EFFECT for end in _ends(row))
    ]
    rows = with_effect[:MAX_BARS]
    figure = NotebookFigure(figsize=(9, 1.6 + 0.36 * max(1, len(rows))), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        for label, end in zip(_labels(row), _ends(row), strict=True):
            axes.barh(place, end - base, left=base, height=0.62, color=ABOVE if end >= base else BELOW)
            if end != base:
                axes.text(end, place, f" {label} ", ha="left" if end > base else "right", va="center", fontsize=8)
    axes.axvline(base, color="black", linewidth=0.9)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: seconds(value) if value > 0 else "0")
    axes.tick_params(labelsize=8, axis="x")
    axes.set_xlabel(f"{name}; {seconds(base)} with the stated constants", fontsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def _ends(row: ContributionResult) -> tuple[float, float]:
    """Return the time at the low and at the high end of a constant's range, in seconds."""
    if row.tpot_s_at_low is None or row.tpot_s_at_high is None:
        return row.ttft_s_at_low, row.ttft_s_at_high
    return row.tpot_s_at_low, row.tpot_s_at_high


def _labels(row: ContributionResult) -> tuple[str, str]:
    """Return the labels of the two ends of a bar.

    They are the ends of a constant's range, or the quantiles of a model error ("5 %" and "95 %").
    """
    if row.low is None or row.high is None:
        return "5 %", "95 %"
    return with_unit(row.low, row.unit), with_unit(row.high, row.unit)
