"""What ``wse validate`` prints: rows with their predictions, what could not be predicted and why, errors by kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TextIO

from rich.console import Console

from wse.errors import UnknownName
from wse.report.terminal import console_on, count, heading, lines, plain_table, several, show, shown

ROWS_CHOICES: Final = ("predicted", "all", "none")
MOST_TEXT: Final = 34

Facts = dict[str, Any]


def check_rows_option(choice: str) -> None:
    """Refuse what ``--rows`` does not know."""
    if choice not in ROWS_CHOICES:
        raise UnknownName("choice", choice, ROWS_CHOICES, where="--rows")


def print_validation(facts: Facts, stream: TextIO, *, rows: str) -> None:
    """Print a report of `wse.studies.validation`."""
    console = console_on(stream)
    listed = [row for row in facts["rows"] if rows == "all" or (rows == "predicted" and row["reason"] is None)]
    for (file, source), group in _grouped(listed).items():
        heading(console, shown(source), shown(file))
        _print_rows(console, group)
    _print_reasons(console, facts["summary"]["reasons"])
    _print_groups(console, facts["summary"])


def _grouped(rows: Iterable[Facts]) -> dict[tuple[str, str], list[Facts]]:
    groups: dict[tuple[str, str], list[Facts]] = {}
    for row in rows:
        given = row["input"]
        groups.setdefault((row["file"], given.get("source") or given.get("source_url") or ""), []).append(row)
    return groups


def _print_rows(console: Console, rows: list[Facts]) -> None:
    table = plain_table(header=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("what", overflow="ellipsis", no_wrap=True, max_width=MOST_TEXT)
    table.add_column("metric", overflow="ellipsis", no_wrap=True, max_width=16)
    for name in ("measured", "predicted", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        given = row["input"]
        measured = shown(given["value"]) if row["measured"] is None else number(row["measured"])
        answer = ("", "") if row["reason"] else (number(row["predicted"]), signed(row["error_pct"]))
        table.add_row(str(row["line"]), shown(what(given)), shown(given["metric"]), measured, *answer)
        if row["reason"] is not None:
            table.add_row("", f"  {shown(row['reason'])}", style="bright_black")
    show(console, table)


def what(given: dict[str, str]) -> str:
    """A row in few words: algorithm, grid, size."""
    name = given.get("algorithm") or given.get("system") or given.get("kernel") or ""
    grid = f"{given['grid_h']}x{given['grid_w']}" if given.get("grid_w") and given.get("grid_h") else ""
    product = given.get("M,N,K") or "x".join(given[c] for c in "MKN" if given.get(c))
    size = f"{given['vector_len_bytes']} B" if given.get("vector_len_bytes") else product
    model = given.get("workload") or given.get("model") or ""
    return ", ".join(part for part in (name, model, grid, size) if part)


def _print_reasons(console: Console, reasons: list[Facts]) -> None:
    if not reasons:
        return
    heading(console, "Not predicted", several(sum(r["rows"] for r in reasons), "row"))
    table = plain_table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for reason in reasons:
        table.add_row(count(reason["rows"]), shown(reason["reason"]))
    show(console, table)


def _print_groups(console: Console, summary: Facts) -> None:
    heading(console, "Errors", "absolute, by source and kernel, where something is predicted")
    table = plain_table(header=True)
    table.add_column("source", overflow="ellipsis", no_wrap=True, max_width=40)
    table.add_column("kernel", overflow="ellipsis", no_wrap=True, max_width=18)
    for name in ("rows", "predicted", "median", "worst"):
        table.add_column(name, justify="right", no_wrap=True)
    for group in summary["by_source_and_kernel"]:
        if group["predicted"]:
            table.add_row(shown(group["source"]), shown(group["kernel"]), *_numbers(group))
    table.add_row("all", "", *_numbers(summary), style="bold")
    show(console, table)
    lines(console, [("more", "--rows all: every row; --json: everything for machines")])


def _numbers(group: Facts) -> list[str]:
    errors = [group["median_abs_error_pct"], group["worst_abs_error_pct"]]
    return [count(group["rows"]), count(group["predicted"]), *("" if e is None else f"{e:.1f} %" for e in errors)]


def number(value: float) -> str:
    """A measured or predicted value with what matters of its fraction."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def signed(error_pct: float | None) -> str:
    """An error with its sign; nothing where the measured value is zero."""
    return "" if error_pct is None else f"{error_pct:+.1f} %"
