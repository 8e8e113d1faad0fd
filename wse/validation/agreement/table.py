"""What ``wse validate --against wavelet`` prints: errors of the fast model by pattern, and the worst configurations."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console

from wse.errors import UnknownName
from wse.report.terminal import INDENT, console_on, count, heading, lines, plain_table, show, shown
from wse.validation.agreement.result import Agreement, AgreementErrors, AgreementRow, AgreementSummary
from wse.validation.table import clipped, signed

REFERENCES: Final = ("wavelet",)
WORST: Final = 10  # configurations that are listed
PADDING: Final = 2


def check_against_option(choice: str) -> None:
    """Refuse what ``--against`` does not know."""
    if choice not in REFERENCES:
        raise UnknownName("reference", choice, REFERENCES, where="--against")


def print_agreement(result: Agreement, stream: TextIO) -> None:
    """Print a report of ``wse.validation.agreement.against_wavelet``."""
    console = console_on(stream)
    above, summary = result.judged_above_cycles, result.summary
    heading(console, "The fast model against the cycle-by-cycle reference", f"seed {result.seed}")
    _print_summary(console, summary)
    listed = [row for row in result.rows if row.wavelet_cycles > above]
    listed.sort(key=lambda row: -abs(row.error_pct))
    heading(console, f"The {min(WORST, len(listed))} configurations that are farthest apart")
    _print_rows(console, listed[:WORST])
    errors = f"of the fast model, where the reference takes more than {count(above)} cycles"
    lines(console, [("", ""), ("errors", errors), ("more", "--json: every configuration, with what else it has")])


def _print_summary(console: Console, summary: AgreementSummary) -> None:
    table = plain_table(header=True)
    table.add_column("pattern", no_wrap=True)
    for name in ("runs", "links equal", "median", "worst"):
        table.add_column(name, justify="right", no_wrap=True)
    groups: list[tuple[str, AgreementErrors]] = [*((g.pattern, g) for g in summary.by_pattern), ("all", summary)]
    for name, group in groups:
        errors = [group.median_abs_error_pct, group.worst_abs_error_pct]
        cells = ["" if error is None else f"{error:.1f} %" for error in errors]
        style = "bold" if name == "all" else ""
        table.add_row(shown(name), count(group.rows), count(group.loads_equal), *cells, style=style)
    show(console, table)


def _print_rows(console: Console, rows: list[AgreementRow]) -> None:
    fixed = {"machine": 13, "PEs": 7, "words": 5, "fast": 8, "wavelet": 8, "error": 8}
    room = console.width - INDENT - sum(fixed.values()) - PADDING * len(fixed)
    table = plain_table(header=True)
    table.add_column("pattern", width=room, no_wrap=True)
    for name, width in fixed.items():
        left = name in ("machine", "PEs")
        table.add_column(name, justify="left" if left else "right", width=width, no_wrap=True)
    for row in rows:
        sizes = [f"{row.rows}x{row.cols}", count(row.words) if row.words else ""]
        cycles = [count(row.fast_cycles), count(row.wavelet_cycles), signed(row.error_pct)]
        machine = shown(f"{row.wafer} {row.software}")
        table.add_row(clipped(row.pattern, room), machine, *sizes, *cycles)
    show(console, table)
