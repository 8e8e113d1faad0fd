"""Output of a comparison of wafers and GPUs: verdict, tiers, operating points, published speeds."""

from __future__ import annotations

from typing import TextIO

from wse.reports.table import pair_table
from wse.reports.terminal import console_on, heading, printable
from wse.reports.terminal_table import print_table, print_tables, shown_columns
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.summary import input_texts, print_more_rows, print_text
from wse.studies.compare.tables import IMPOSSIBLE, notes


def print_curve(result: CurveResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the verdict and the tables of a comparison of wafers and GPUs.

    Args:
        result: The comparison.
        stream: Text stream to print to.
        detail: Whether to also print all rows, impossible machines, assumptions and options.
    """
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
        heading(console, "Options")
        print_text(console, ", ".join(input_texts(result.inputs)))
        print_table(console, pair_table(assumption_texts(result), "Assumptions"))
    elif more_rows := sum(not row.best for row in result.rows):
        row_description = (
            "the rows that no other row of the wafers, or of the same type of GPU, surpasses in speed and cost"
        )
        print_more_rows(console, more_rows, tables[1].title, row_description)


def assumption_texts(result: CurveResult) -> list[tuple[str, str]]:
    """Return the assumed prices and powers of the machines as (name, text) pairs."""
    return [(name, printable(assumed.text)) for name, assumed in result.economics.items()]
