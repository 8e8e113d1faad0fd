"""Terminal output of a scenario: the question, the verdict, and the tables."""

from __future__ import annotations

from typing import TextIO

from wse.reports.table import pair_table
from wse.reports.terminal import console_on, heading, printable
from wse.reports.terminal_table import print_table, print_tables
from wse.studies.compare.summary import print_text
from wse.studies.scenario.result import ScenarioResult


def print_scenario(result: ScenarioResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the question, the verdict and the tables of a scenario.

    Args:
        result: The result.
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
