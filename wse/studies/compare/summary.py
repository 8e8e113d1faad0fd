"""Output of ``wse compare``: the verdict and the best rows, or two runs and their changes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.padding import Padding

from wse.reports.number_text import plural, rate_and_latency
from wse.reports.table import pair_table
from wse.reports.terminal import INDENT, console_on, heading, lines, printable
from wse.reports.terminal_table import print_table, print_tables, shown_columns
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.grid.verdict import change_of_runs
from wse.studies.compare.result import CompareResult
from wse.studies.compare.tables import IMPOSSIBLE, notes, reasons
from wse.studies.compare.traces import trace_tables
from wse.studies.results.placement_table import described_mapping
from wse.tracing.query.two_traces.compare import TracesResult
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

KEY: Final = {
    "mapping": "auto tries all, on whole wafers and on parts of them; "
    "for throughput: layout with the highest throughput, not the lowest latency",
    "one user": "speed in decode with one request in flight, without prefill (1 / TPOT)",
    "users": "the fewest with the highest throughput; fit: fewer, because no more KV caches fit in this layout",
    "all users": "output tokens per second of all these users, including the time for prefill",
    "USD/Mtok": "with all these users, including prefill",
    "TTFT": "with one request in flight",
    "crossing": "fraction of a token's time spent between wafers, with one request in flight",
}
"""Short explanations of the columns in the table of best rows."""


def print_comparison(result: CompareResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the verdict and best rows of a comparison of wafers, mappings and wafer links.

    Args:
        result: The comparison.
        stream: Text stream to print to.
        detail: Whether to also print all rows, reasons for impossible combinations, and the
            options.
    """
    console = _console_with_verdict(result, stream)
    best, *details = result.tables(detail=detail)
    print_table(console, best)
    titles = [column.title for column in shown_columns(console, best)]
    mappings = dict.fromkeys(described_mapping(row.chosen or row.mapping) for row in result.best)
    key = KEY | {"mapping": "; ".join([KEY["mapping"], *mappings])}
    print_text(console, "; ".join(f"{title}: {key[title]}" for title in titles if title in key), style="bright_black")
    print_tables(console, details)
    impossible_rows = [row for row in result.rows if not row.possible and (detail or _stands_alone(row, result))]
    if impossible_rows:
        print_table(console, pair_table(reasons(impossible_rows), IMPOSSIBLE))
    if detail:
        columns = [column for table in details for column in shown_columns(console, table)]
        print_table(console, pair_table(notes(columns), "Columns"))
        heading(console, "Options")
        print_text(console, ", ".join(input_texts(result.inputs)))
    elif more_rows := len(result.rows) - len(result.best) - len(impossible_rows):
        by_link = " and link" if result.by_link else " with the wafers' own link"
        row_description = f"the fastest row of each number of wafers{by_link}, for one user and for all users"
        print_more_rows(console, more_rows, best.title, row_description)


def _console_with_verdict(result: CompareResult | CurveResult, stream: TextIO) -> Console:
    """Print the title, the verdict and the note of a comparison, and return the console."""
    console = console_on(stream)
    heading(console, result.title)
    for sentence in (*result.verdict, *([result.note] if result.note else ())):
        print_text(console, sentence)
    return console


def print_more_rows(console: Console, rows: int, title: str, row_description: str) -> None:
    """Print how many rows of a table are shown only with ``--detail``.

    Args:
        console: Console to print to.
        rows: Number of rows that are left out.
        title: Title of the table.
        row_description: Description of the rows that are shown.
    """
    text = f'"{title}" shows {row_description}; --detail shows {plural(rows, "more row")}.'
    print_text(console, text, style="bright_black")


def input_texts(inputs: Mapping[str, Any]) -> list[str]:
    """Return a phrase such as "wafers 1, 2, 4" for each option of a comparison."""
    texts = []
    for name, value in inputs.items():
        if name == "links":
            links = [rate_and_latency(link["bytes_per_s"], link["latency_s"]) for link in value]
            texts.append(f"links {' or '.join(links)}")
        elif name != "links_given":
            text = ", ".join(map(printable, value)) if isinstance(value, list) else printable(value)
            texts.append(f"{name.replace('_', ' ')} {text}")
    return texts


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print an indented paragraph, keeping numbers and percent signs on the same line."""
    unbroken = printable(text).replace(" %", "\N{NO-BREAK SPACE}%")
    paragraph = textwrap.fill(unbroken, console.width - INDENT, break_on_hyphens=False)
    console.print(Padding(paragraph.replace("\N{NO-BREAK SPACE}", " "), (0, 0, 0, INDENT)), style=style or None)


def _stands_alone(row: ComparisonRow, result: CompareResult) -> bool:
    """Return whether to print an impossible row even without ``--detail``.

    It is printed if its mapping, or its number of wafers, is impossible in all rows. The output
    would otherwise not mention this mapping or number.
    """
    possible = result.possible
    return all(r.mapping != row.mapping for r in possible) or all(r.wafers != row.wafers for r in possible)


def print_traces(result: TracesResult, stream: TextIO) -> None:
    """Print a comparison of two runs."""
    console = console_on(stream)
    heading(console, "Runs", "the same Program" if result.same_program else "")
    print_text(console, change_of_runs(*result.rows))
    lines(console, [(str(number), text) for number, text in enumerate(runs(result), start=1)])
    print_tables(console, trace_tables(result))


def runs(result: TracesResult) -> list[str]:
    """Return a phrase with the trace file, model and mapping for each of two recorded runs."""
    return [f"{printable(row.trace)}: {printable(row.model)}, {printable(row.mapping)}" for row in result.rows]


def print_curve(result: CurveResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print the verdict and the tables of a comparison of wafers and GPUs.

    Args:
        result: The comparison.
        stream: Text stream to print to.
        detail: Whether to also print all rows, impossible machines, assumptions and options.
    """
    console = _console_with_verdict(result, stream)
    tables = result.tables(detail=detail)
    print_tables(console, tables)
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
