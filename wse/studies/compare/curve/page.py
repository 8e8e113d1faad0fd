"""HTML page of a comparison of wafers and GPUs: verdict, tables, and two charts with tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse.reports.number_text import plural
from wse.reports.terminal import printable
from wse.studies.compare.curve.plot import PANELS, SPEED, best_machines
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.curve.tables import LINE
from wse.studies.compare.page.page import CurveSection, comparison_page
from wse.studies.compare.summary import assumption_texts, input_texts
from wse.studies.compare.tables import IMPOSSIBLE
from wse.studies.results.published import PublicPoint

NOTE: Final = (
    "A line connects the numbers of users of one machine; lines of GPUs are dashed. Grey lines are wafers that are "
    "never the best. Rings mark service tiers: solid rings the plain tier, dashed rings the fast tier. Diamonds are "
    "published speeds with a price, and ticks at the top are published speeds without a price."
)


def curve_as_html(result: CurveResult) -> bytes:
    """Return the UTF-8 HTML page for a comparison of wafers and GPUs."""
    best = best_machines(result.rows)
    return comparison_page(
        title=result.title,
        verdict=result.verdict,
        tables=result.tables(detail=True),
        curves=CurveSection(
            title="Speed of a user against the cost of a token",
            note=NOTE,
            series=best,
            charts=[_chart(result, key, label) for key, label in PANELS],
        ),
        lists=[
            (IMPOSSIBLE, [*(result.impossible or {}).items()]),
            ("Assumptions", assumption_texts(result)),
            ("Sources of published speeds", _sources(result.public)),
            ("Options", [("inputs", ", ".join(input_texts(result.inputs)))]),
        ],
    )


def _chart(result: CurveResult, key: str, label: str) -> dict[str, Any]:
    """Return the data from which ``compare.js`` draws a chart with the speed per user as x axis.

    Args:
        result: Speeds and costs of the machines, and published speeds.
        key: Row field to plot on the vertical axis, such as the cost per token.
        label: Title of the chart.

    Returns:
        A dict with ``title``, ``across`` (label of the horizontal axis), ``lines`` (one per
        machine) and ``public`` (published points).
    """
    machines = dict.fromkeys(row.machine for row in result.rows)
    lines = [_line(result.rows, machine, key) for machine in machines]
    public = [_public(point, key) for point in result.public]
    return {"title": label, "across": SPEED, "lines": lines, "public": public}


def _line(rows: Sequence[CurveRow], machine: str, key: str) -> dict[str, Any]:
    """Return the data of one machine's line in a chart.

    Args:
        rows: Rows of all machines, each with the speed and cost for a number of users.
        machine: Description of the machine.
        key: Row field to plot on the vertical axis.

    Returns:
        A dict with ``series`` (name of the machine), ``kind`` and ``points`` (one per row).
    """
    machine_rows = [row for row in rows if row.machine == machine]
    return {"series": machine, "kind": machine_rows[0].kind, "points": [_point(row, key) for row in machine_rows]}


def _point(row: CurveRow, key: str) -> dict[str, Any]:
    """Return the data that the page needs to draw one point of a chart.

    Args:
        row: Speed and cost of a machine with a certain number of users.
        key: Row field to plot on the vertical axis.

    Returns:
        A dict with ``x`` (tokens/s per user), ``y``, ``tier`` (names of its service tiers, or None)
        and ``lines`` (tooltip text).
    """
    numbers = [f"{column.title}: {column.text(row)}" for column in LINE if column.numeric]
    lines = [row.machine, *([f"{row.tier} tier"] if row.tier else []), *numbers]
    return {"x": row.tokens_per_s_per_user, "y": getattr(row, key), "tier": " ".join(row.tiers) or None, "lines": lines}


def _public(point: PublicPoint, key: str) -> dict[str, Any]:
    """Return the data that the page needs to draw a published speed.

    Args:
        point: The published speed.
        key: Row field that the chart shows on the vertical axis.

    Returns:
        A dict with ``x`` (tokens/s per user), ``y`` (USD per million tokens) and ``lines`` (the
        tooltip). ``y`` is None if no price was published, or if the chart shows energy.
    """
    price = point.usd_per_million_tokens if key == PANELS[0][0] else None
    chips = [] if point.chips is None else [plural(point.chips, "chip")]
    numbers = [
        f"{point.tokens_per_s_per_user:,g} tokens/s of a user",
        *([f"{price:,g} USD a million"] if price else []),
    ]
    lines = [printable(point.system), *chips, printable(point.model), *numbers, f"{point.by}, {printable(point.date)}"]
    return {"x": point.tokens_per_s_per_user, "y": price, "lines": lines}


def _sources(public: Sequence[PublicPoint]) -> list[tuple[str, str]]:
    """Return two strings for each published speed: service and speed, and web addresses."""
    return [
        (
            f"{printable(point.system)}, {point.tokens_per_s_per_user:,g} tokens/s",
            " and ".join(dict.fromkeys(printable(text) for text in (point.source, point.price_source) if text)),
        )
        for point in public
    ]
