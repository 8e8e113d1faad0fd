"""Single-file HTML page of a scenario: the verdict, tables, and charts with tooltips."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from wse.reports.terminal import printable
from wse.studies.compare.page.page import CurveSection, comparison_page
from wse.studies.scenario.drawing import drawings_of, series_of
from wse.studies.scenario.figures import published_texts
from wse.studies.scenario.result import PublishedResult, ScenarioResult

NOTE: Final = (
    "A line connects the numbers of users of one combination. Lines of GPUs are dashed, and combinations that are "
    "ruled out are grey. Diamonds are published speeds with a price, ticks at the top those without a price."
)


def scenario_as_html(result: ScenarioResult) -> bytes:
    """Build the HTML page of a scenario, with its verdict, tables and charts, encoded in UTF-8."""
    drawings = drawings_of(result)
    return comparison_page(
        title=printable(result.title),
        verdict=result.verdict,
        tables=result.tables(detail=True),
        curves=CurveSection(
            title="Predicted and published figures",
            note=NOTE,
            series=series_of(drawings),
            charts=[asdict(drawing) for drawing in drawings],
        ),
        command="wse scenario --detail",
        lists=[
            ("Question", [("question", printable(result.question))]),
            ("Published", [_source(published) for published in result.published]),
            ("Assumptions", [(name, printable(assumed.text)) for name, assumed in result.economics.items()]),
        ],
    )


def _source(published: PublishedResult) -> tuple[str, str]:
    """Return two strings: a published figure's value, and its publisher, evidence and source."""
    text, publisher = published_texts(published)
    return text, f"{publisher}; {printable(published.evidence)}. {printable(published.source)}"
