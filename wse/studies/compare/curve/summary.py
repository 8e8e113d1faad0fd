"""A comparison of wafers and GPUs on a terminal: the verdict, tiers, users at the same time, published speeds."""

from __future__ import annotations

from typing import TextIO

from wse.reports.table import pair_table
from wse.reports.terminal import console_on, heading, plural, printable
from wse.reports.terminal_table import print_table, print_tables, shown_columns
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.summary import input_texts, print_text
from wse.studies.compare.tables import IMPOSSIBLE, notes


def print_curve(result: CurveResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the verdict first; with ``detail`` all rows, what cannot be, the assumptions and inputs."""
    console = console_on(stream)
    heading(console, result.title)
    for sentence in (*result.verdict, *([result.note] if result.note else ())):
        print_text(console, sentence)
    tables = result.tables(detail=detail)
    print_tables(console, tables[:2])
    print_tables(console, tables[2:])
    if detail:
        if result.impossible:
            print_table(console, pair_table([*result.impossible.items()], IMPOSSIBLE))
        print_table(console, pair_table(notes(shown_columns(console, tables[1])), "Columns"))
        heading(console, "Asked for")
        print_text(console, ", ".join(input_texts(result.inputs)))
        print_table(console, pair_table(assumption_texts(result), "Assumptions"))
    elif others := sum(not row.best for row in result.rows):
        print_text(console, f"{plural(others, 'more row')} with --detail.", style="bright_black")


def assumption_texts(result: CurveResult) -> list[tuple[str, str]]:
    """Name and text of each assumption."""
    return [(name, printable(assumed.text)) for name, assumed in result.economics.items()]
