"""Entry point of ``wse scenario``: checks output paths, runs the study, and writes its page and plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TextIO

from wse.reports.output_file import png_of, write_output
from wse.reports.progress import OnProgress
from wse.reports.table import pair_table
from wse.reports.terminal import console_on, heading, printable
from wse.reports.terminal_table import print_table, print_tables
from wse.serving.prices import Price
from wse.studies.compare.files import check_files
from wse.studies.compare.page.page import CurveSection, comparison_page
from wse.studies.compare.summary import print_text
from wse.studies.scenario.drawing import drawings_of, series_of
from wse.studies.scenario.figures import published_texts
from wse.studies.scenario.request import bundled_scenarios, read_scenario
from wse.studies.scenario.result import PublishedResult, ScenarioResult, ScenariosResult, ScenarioSummary
from wse.studies.scenario.study import answer

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


def answer_to_files(
    source: str | Path | Mapping[str, Any],
    on_progress: OnProgress,
    *,
    html: str | Path | None,
    png: str | Path | None,
    price: Price | None = None,
    jobs: int | None = None,
) -> ScenarioResult:
    """Compare a scenario's predictions with published figures, and write a page and charts.

    Args:
        source: Name of a bundled scenario, a TOML file, or a mapping with the content of such a
            file.
        on_progress: Called with (finished groups, all groups, name). The settings of a group share
            a compilation.
        html: Path of the HTML page. None writes no page.
        png: Path of the PNG image of the charts. None writes no image.
        price: Prices that override those of the scenario.
        jobs: Number of processes; by default one per core.

    Raises:
        BadInput and its subclasses: The scenario is invalid, as for
            `wse.studies.scenario.study.answer`. Or a path is empty, is a folder or the scenario's
            own file, or its folder is missing.
        DoesNotFit: No combination of settings can run.
    """
    inputs = [] if isinstance(source, Mapping) else [str(source)]
    paths = check_files(inputs, html=html, png=png)
    result = answer(source, on_progress, price=price, jobs=jobs)
    for kind, path in paths.items():
        content = scenario_as_html(result) if kind == "html" else png_of(result.plot())
        write_output(f"--{kind}", path, content)
    return result


def scenarios() -> ScenariosResult:
    """List the bundled scenarios with their titles and questions."""
    bundled = map(read_scenario, bundled_scenarios())
    return ScenariosResult(scenarios=tuple(map(ScenarioSummary.from_parts, bundled)))


def print_scenario(result: ScenarioResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the question, the verdict and the tables of a scenario.

    Args:
        result: Answer of the scenario: published figures, and all combinations of settings.
        stream: Output stream.
        detail: Whether to print all rows and the assumptions.
    """
    console = console_on(stream)
    heading(console, printable(result.title))
    print_text(console, printable(result.question), style="bright_black")
    for sentence in result.verdict:
        print_text(console, sentence)
    print_tables(console, result.tables(detail=detail, width=console.width))
    if detail:
        texts = [(name, printable(assumed.text)) for name, assumed in result.economics.items()]
        print_table(console, pair_table(texts, "Assumptions"))
