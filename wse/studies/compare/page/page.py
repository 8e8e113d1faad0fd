"""HTML page of a comparison as one file: verdict, sortable tables, and charts with tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from wse.reports.number_text import plural
from wse.reports.page.html_table import page_table
from wse.reports.page.inline_page import inline_page
from wse.reports.table import Table
from wse.studies.compare.grid.verdict import change_of_runs
from wse.studies.compare.plot import PANELS
from wse.studies.compare.result import AssumptionResult, CompareResult
from wse.studies.compare.summary import input_texts, runs
from wse.studies.compare.tables import IMPOSSIBLE, detail_tables, link_text, mapping_text, reasons
from wse.studies.compare.traces import CHANGED
from wse.tracing.print.diff import KINDS, changes_table
from wse.tracing.query.two_traces.compare import TracesResult
from wse.tracing.query.two_traces.comparison_row import ComparisonRow
from wse_traces.schema import CAUSES


def as_html(result: CompareResult) -> bytes:
    """Return the UTF-8 HTML page for a comparison of wafers, mappings and wafer links."""
    rows = result.possible
    return comparison_page(
        title=result.title,
        verdict=result.verdict,
        tables=result.tables(detail=True),
        rows=rows,
        stacks=[(f"{plural(row.wafers, 'wafer')}, {mapping_text(row)}", row) for row in result.best],
        lists=[
            (IMPOSSIBLE, reasons(result.rows)),
            ("Assumptions", _assumptions(result.economics)),
            ("Options", [("inputs", ", ".join(input_texts(result.inputs)))]),
        ],
    )


def traces_as_html(result: TracesResult) -> bytes:
    """Return the UTF-8 HTML page for a comparison of two recorded runs."""
    change_tables = [
        changes_table(changes, {kind: ""}, title=f"{CHANGED[phase]}, {text}")
        for phase, changes in result.changes.items()
        for kind, text in KINDS.items()
        if text
    ]
    names = ("first run", "second run")
    return comparison_page(
        title=f"{result.rows[0].model}: two runs",
        verdict=(change_of_runs(*result.rows),),
        tables=[*detail_tables(result.rows, ()), *(table for table in change_tables if table.rows)],
        stacks=list(zip(names, result.rows, strict=True)),
        lists=[
            ("Runs", list(zip(names, runs(result), strict=True))),
            ("Prices", [("USD/Mtok", text) for text in result.prices]),
        ],
    )


class CurveSection(NamedTuple):
    """A page section with line charts, such as the cost per token over the speed per user.

    Attributes:
        title: Heading of the section.
        note: Text below the charts.
        series: Names of the lines that have their own colour.
        charts: Data of each chart for ``compare.js``: title, horizontal axis label, lines and
            published points.
    """

    title: str
    note: str
    series: Sequence[str]
    charts: Sequence[Mapping[str, Any]]


NO_CURVES: Final = CurveSection("", "", (), ())
"""Placeholder section for a page without line charts."""


def comparison_page(
    *,
    title: str,
    verdict: Sequence[str],
    tables: Sequence[Table],
    lists: Sequence[tuple[str, Sequence[tuple[str, str]]]],
    rows: Sequence[ComparisonRow] = (),
    stacks: Sequence[tuple[str, ComparisonRow]] = (),
    curves: CurveSection = NO_CURVES,
    command: str = "wse compare --detail",
) -> bytes:
    """Return the HTML page for a comparison, encoded in UTF-8.

    Args:
        title: Heading of the page.
        verdict: Sentences of the verdict.
        tables: Sortable tables. Charts are placed after the first table.
        lists: (heading, entries) for each list; an entry is a (name, text) pair.
        rows: Rows to plot against their wafer counts.
        stacks: (label, row) for each stacked bar, which shows the row's cycles broken down by
            cause.
        curves: Section with line charts.
        command: Command that prints the same numbers.
    """
    data = {
        "tables": [page_table(table) for table in tables],
        "series": list(curves.series) or list(dict.fromkeys(row.layout for row in rows)),
        "curves": list(curves.charts),
        "curves_title": curves.title,
        "curves_note": curves.note,
        "panels": [{"title": label, "points": _points(rows, key)} for key, label in PANELS if rows],
        "causes": CAUSES,
        "stacks": [{"name": name, "parts": row.cycles_by} for name, row in stacks if row.cycles_by is not None],
    }
    return inline_page(
        "wse.studies.compare.page",
        scripts=["compare.js"],
        data=data,
        title=title,
        verdict=verdict,
        lists=lists,
        command=command,
    )


def _points(rows: Sequence[ComparisonRow], key: str) -> list[dict[str, Any]]:
    """Return the points of a chart whose horizontal axis is the number of wafers.

    Args:
        rows: Rows to draw.
        key: Row field to plot on the vertical axis.

    Returns:
        A dict for each row with ``wafers``, ``value``, ``series`` (the layout), ``link`` and
        ``lines`` (tooltip text).
    """
    speed, *_ = detail_tables(rows, ())
    points = []
    for row in rows:
        link = link_text(row)
        numbers = [f"{c.title}: {c.text(row)}" for c in speed.columns if c.numeric and c.key != "wafers"]
        machine = f"{mapping_text(row)} on {plural(row.wafers, 'wafer')}{f', {link}' if link else ''}"
        lines = [machine, *numbers, *([row.limit] if row.limit else [])]
        points.append(
            {"wafers": row.wafers, "value": getattr(row, key), "series": row.layout, "link": link, "lines": lines}
        )
    return points


def _assumptions(economics: Mapping[str, AssumptionResult]) -> list[tuple[str, str]]:
    """Return assumptions as (name, text) pairs, with underscores in names replaced by spaces."""
    return [(name.replace("_", " "), assumed.text) for name, assumed in economics.items()]
