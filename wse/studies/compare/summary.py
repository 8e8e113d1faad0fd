"""What ``wse compare MODEL`` prints: the verdict, the best rows as one table, and in detail all that was tried."""

from __future__ import annotations

from typing import Any, Final, TextIO

from rich.console import Console
from rich.padding import Padding

from wse.report.comparison_row import ComparisonRow
from wse.report.limits import many
from wse.report.terminal import INDENT, console_on, heading, lines, seconds, shown
from wse.report.terminal_table import print_table
from wse.studies.compare.result import CompareResult
from wse.studies.compare.tables import best_table, detail_tables, notes, reasons

KEY: Final = (
    "1 user: tokens/s of one batch alone; all users: of all that fit at once; USD/M: dollars of a million of theirs; "
    "TTFT: time to the first token; crossing: share of a token's time between wafers"
)


def print_comparison(result: CompareResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print a comparison."""
    console = console_on(stream)
    heading(console, title(result))
    for sentence in result.verdict:
        print_text(console, sentence)
    print_table(console, best_table(result))
    print_text(console, KEY, style="bright_black")
    if detail:
        _print_detail(console, result)
        return
    _print_reasons(console, [row for row in result.rows if not row.possible and _alone(row, result)])
    behind = len(result.rows) - len(result.best)
    if behind:
        print_text(console, f"{many(behind, 'more row')} with --detail.", style="bright_black")


def title(result: CompareResult) -> str:
    """The model, the wafer and the tokens, in a line."""
    model, wafer, inputs = result.model, result.wafer, result.inputs
    of = f"{shown(model['name'])} as {model['dtype']} on {shown(wafer['name'])}, {wafer['rows']}x{wafer['cols']} PEs"
    batch = f", batches of {inputs['batch']:,}" if inputs["batch"] > 1 else ""
    return f"{of}; {inputs['prompt_len']:,} + {inputs['new_tokens']:,} tokens{batch}"


def input_texts(inputs: dict[str, Any]) -> list[str]:
    """The inputs, each as its name and value."""
    texts = []
    for name, value in inputs.items():
        if name == "links":
            links = [f"{link['bytes_per_s'] / 1e9:g} GB/s {seconds(link['latency_s'])}" for link in value]
            texts.append(f"links {' or '.join(links)}")
        elif name != "links_given":
            text = ", ".join(map(shown, value)) if isinstance(value, list) else shown(value)
            texts.append(f"{name.replace('_', ' ')} {text}")
    return texts


def _print_detail(console: Console, result: CompareResult) -> None:
    tables = detail_tables(result.possible)
    for table in tables:
        print_table(console, table)
    _print_reasons(console, [row for row in result.rows if not row.possible])
    heading(console, "Columns")
    lines(console, notes(tables))
    heading(console, "Asked for")
    print_text(console, ", ".join(input_texts(dict(result.inputs))))


def _alone(row: ComparisonRow, result: CompareResult) -> bool:
    """Whether nothing else can be on the number of wafers of a row that cannot be, or its mapping on any."""
    of_mapping = [other for other in result.rows if other.mapping == row.mapping and not other.possible]
    return len(of_mapping) == len(result.inputs["wafers"]) or all(row.wafers != r.wafers for r in result.possible)


def _print_reasons(console: Console, rows: list[ComparisonRow]) -> None:
    if rows:
        heading(console, "What cannot be")
        lines(console, reasons(rows))


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph, indented."""
    console.print(Padding(shown(text), (0, 0, 0, INDENT)), style=style or None)
