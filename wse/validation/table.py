"""What ``wse validate`` prints: rows with their predictions, what could not be predicted and why, errors by kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table

from wse.errors import UnknownName
from wse.report.terminal import INDENT, console_on, count, heading, lines, plain_table, several, show, shown
from wse.validation.result import Errors, ModelCapacity, ReasonCount, Validation, ValidationRow, ValidationSummary
from wse.validation.summary import CALIBRATED

ROWS_CHOICES: Final = ("predicted", "all", "none")
NUMBER_WIDTH: Final = 9
LINE_WIDTH: Final = 5
KERNEL_WIDTH: Final = 17
METRIC_WIDTH: Final = 12
PADDING: Final = 2


def check_rows_option(choice: str) -> None:
    """Refuse what ``--rows`` does not know."""
    if choice not in ROWS_CHOICES:
        raise UnknownName("choice", choice, ROWS_CHOICES, where="--rows")


def print_validation(validation: Validation, stream: TextIO, *, rows: str) -> None:
    """Print a report of `wse.validation`: the rows that are asked for, the reasons, the errors."""
    console = console_on(stream)
    _print_files(console, validation.rows)
    listed = [row for row in validation.rows if rows == "all" or (rows == "predicted" and row.reason is None)]
    for (file, source), group in _grouped(listed).items():
        heading(console, shown(source), shown(Path(file).name))
        _print_rows(console, group)
    _print_reasons(console, validation.summary.reasons)
    _print_groups(console, validation.summary)
    _print_capacity(console, validation.capacity or ())
    left = validation.summary.reasons
    more = ["--rows predicted: row by row"] if rows != "predicted" else ["--rows all: the others too"] if left else []
    lines(console, [("", ""), ("more", "; ".join([*more, "--json: everything"]))])


def _print_files(console: Console, rows: Sequence[ValidationRow]) -> None:
    """Which files there are, with how many rows."""
    heading(console, "Measurements")
    table = plain_table(header=True)
    table.add_column("file", overflow="fold")
    for name in ("rows", "predicted"):
        table.add_column(name, justify="right", min_width=NUMBER_WIDTH, no_wrap=True)
    for file in dict.fromkeys(row.file for row in rows):
        of_file = [row for row in rows if row.file == file]
        table.add_row(shown(file), count(len(of_file)), count(sum(row.reason is None for row in of_file)))
    show(console, table)


def _grouped(rows: Iterable[ValidationRow]) -> dict[tuple[str, str], list[ValidationRow]]:
    """Rows by file and source, in order."""
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        given = row.input
        groups.setdefault((row.file, given.get("source") or given.get("source_url") or ""), []).append(row)
    return groups


def _print_rows(console: Console, rows: list[ValidationRow]) -> None:
    predicted = [row for row in rows if row.reason is None]
    others = [row for row in rows if row.reason is not None]
    room = console.width - INDENT - LINE_WIDTH - METRIC_WIDTH - 3 * NUMBER_WIDTH - 5 * PADDING
    if predicted:
        _print_predicted(console, predicted, room)
    if others:
        _print_others(console, others, room)


def _print_predicted(console: Console, rows: list[ValidationRow], room: int) -> None:
    two = any(row.predicted_plain is not None for row in rows)
    room -= two * 2 * (NUMBER_WIDTH + PADDING)
    table = _row_table(room)
    for name in ("predicted", "error", *(("no drafts", "error") if two else ())):
        table.add_column(name, justify="right", width=NUMBER_WIDTH, no_wrap=True)
    for row in rows:
        table.add_row(
            *_described(row, room), number(row.predicted), signed(row.error_pct), *(plain(row) if two else ())
        )
    show(console, table)


def plain(row: ValidationRow) -> tuple[str, str]:
    """The prediction without speculative decoding and its error; empty where there is none besides."""
    if row.predicted_plain is None:
        return "", ""
    return number(row.predicted_plain), signed(row.error_plain_pct)


def _print_others(console: Console, rows: list[ValidationRow], room: int) -> None:
    table = _row_table(room)
    table.add_column("not predicted", style="bright_black")
    for row in rows:
        table.add_row(*_described(row, room), shown(row.reason))
    show(console, table)


def _row_table(room: int) -> Table:
    """The columns that every row has."""
    table = plain_table(header=True)
    table.add_column("line", justify="right", width=LINE_WIDTH, no_wrap=True)
    table.add_column("what", width=room, no_wrap=True)
    table.add_column("metric", width=METRIC_WIDTH, no_wrap=True)
    table.add_column("measured", justify="right", width=NUMBER_WIDTH, no_wrap=True)
    return table


def _described(row: ValidationRow, room: int) -> tuple[str, ...]:
    given = row.input
    measured = clipped(given["value"], NUMBER_WIDTH) if row.measured is None else number(row.measured)
    return str(row.line), clipped(what(given), room), clipped(given["metric"], METRIC_WIDTH), measured


def what(given: Mapping[str, str]) -> str:
    """A row in few words: grid as rows x columns, size, model, algorithm."""
    name = (given.get("algorithm") or given.get("system") or given.get("kernel") or "").split(" (")[0]
    grid = f"{given['grid_h']}x{given['grid_w']}" if given.get("grid_w") and given.get("grid_h") else ""
    product = "x".join(part for part in (given.get("M,N,K") or "").split(",") if part)
    product = product or "x".join(given[c] for c in "MKN" if given.get(c))
    size = f"{given['vector_len_bytes']} B" if given.get("vector_len_bytes") else product
    model = given.get("workload") or given.get("model") or ""
    return ", ".join(part for part in (grid, size, model, name) if part)


def _print_capacity(console: Console, capacity: Sequence[ModelCapacity]) -> None:
    """The wafers that models need beside the code of each software."""
    if not capacity:
        return
    heading(console, "Capacity", "the fewest wafers that hold a model beside code")
    table = plain_table(header=True)
    table.add_column("model", overflow="fold")
    for name in ("stated", *(each.software for each in capacity[0].needed)):
        table.add_column(name, justify="right", no_wrap=True)
    for model in capacity:
        table.add_row(shown(model.model), str(model.wafers), *(str(each.wafers) for each in model.needed))
    codes = (f"{each.code_bytes_per_pe:,} B" for each in capacity[0].needed)
    table.add_row("code of a PE", "", *codes, style="bright_black")
    show(console, table)


def _print_reasons(console: Console, reasons: Sequence[ReasonCount]) -> None:
    if not reasons:
        return
    heading(console, "Not predicted", several(sum(r.rows for r in reasons), "row"))
    table = plain_table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for reason in reasons:
        table.add_row(count(reason.rows), shown(reason.reason))
    show(console, table)


def _print_groups(console: Console, summary: ValidationSummary) -> None:
    heading(console, "Predicted", "absolute errors by source and kernel")
    room = console.width - INDENT - KERNEL_WIDTH - 3 * NUMBER_WIDTH - 4 * PADDING
    table = plain_table(header=True)
    table.add_column("source", width=room, no_wrap=True)
    table.add_column("kernel", width=KERNEL_WIDTH, no_wrap=True)
    for name in ("rows", "median", "worst"):
        table.add_column(name, justify="right", width=NUMBER_WIDTH, no_wrap=True)
    for group in summary.by_source_and_kernel:
        if group.predicted:
            source = clipped(group.source.split(" (")[0].removeprefix("github:"), room)
            table.add_row(source, clipped(group.kernel, KERNEL_WIDTH), *_numbers(group))
    for method in summary.by_method:
        table.add_row(f"all by {method.method}", "", *_numbers(method))
    if summary.median_abs_error_pct is not None:
        predicted = sum(m.predicted for m in summary.by_method if m.method not in CALIBRATED)
        table.add_row("measurements", "", *_numbers(replace(summary, predicted=predicted)), style="bold")
    show(console, table)


def _numbers(group: Errors) -> list[str]:
    errors = [group.median_abs_error_pct, group.worst_abs_error_pct]
    rows = count(group.predicted)
    return [rows, *("" if e is None else f"{e:.1f} %" for e in errors)]


def clipped(text: str, width: int) -> str:
    """``text``, made harmless, on at most ``width`` characters."""
    text = shown(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def number(value: float | None) -> str:
    """A measured or predicted value with what matters of its fraction; nothing where there is none."""
    if value is None:
        return ""
    if value >= 10_000_000:
        return f"{value:.3e}"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def signed(error_pct: float | None) -> str:
    """An error with its sign; nothing where the measured value is zero."""
    if error_pct is None:
        return ""
    return f"{error_pct:+.1f} %" if abs(error_pct) < 1000 else f"{error_pct:+.0e} %"
