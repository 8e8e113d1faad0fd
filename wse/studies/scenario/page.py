"""The page of a scenario as one file: verdict, tables, and its drawings with tooltips."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from wse.reports.terminal import printable
from wse.studies.compare.page.page import CurveSection, comparison_page
from wse.studies.scenario.drawing import drawings_of, series_of
from wse.studies.scenario.figures import FIGURES, published_text
from wse.studies.scenario.result import PublishedResult, ScenarioResult

NOTE: Final = (
    "Lines join the users of a combination, dashed ones of GPUs; grey ones are ruled out. Diamonds are published "
    "speeds with a price, ticks at the top those without."
)


def scenario_as_html(result: ScenarioResult) -> bytes:
    """Return the page, UTF-8."""
    drawings = drawings_of(result)
    return comparison_page(
        title=printable(result.title),
        verdict=result.verdict,
        tables=result.tables(detail=True),
        curves=CurveSection(
            title="Predicted, and what is published",
            note=NOTE,
            series=series_of(drawings),
            charts=[asdict(drawing) for drawing in drawings],
        ),
        command="wse scenario --detail",
        lists=[
            ("Question", [("question", printable(result.question))]),
            ("Published", [_source(one) for one in result.published]),
            ("Assumptions", [(name, printable(assumed.text)) for name, assumed in result.economics.items()]),
        ],
    )


def _source(one: PublishedResult) -> tuple[str, str]:
    """Return a published figure with its confidence and source."""
    date = "" if one.date is None else f", {printable(one.date)}"
    who = f"{one.by}{date}; confidence {one.confidence}: {printable(one.reason)}"
    return f"{FIGURES[one.figure].title} {published_text(one)}", f"{who}. {printable(one.source)}"
