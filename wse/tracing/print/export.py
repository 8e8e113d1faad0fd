"""Output of ``wse export``: the files that were written, and the programs that open them."""

from __future__ import annotations

from typing import Final, TextIO

from wse.reports.terminal import console_on, heading, lines, plural, printable
from wse.tracing.export.files import ExportResult

_OPEN: Final = {
    "perfetto": "https://ui.perfetto.dev, or chrome://tracing; 1 µs there is 1 cycle",
    "simulator-log": "wse-viz, as a trace file; row 0 is at the bottom there",
}


def print_export(report: ExportResult, stream: TextIO) -> None:
    """Print what an export wrote: the files, their contents, and the program that opens them."""
    console = console_on(stream)
    heading(console, f"Export to {report.to}", "of a run that was not completed" if report.incomplete else "")
    rows = [("trace", printable(report.trace)), ("written", printable(report.out))]
    if report.files is not None:
        rows.append(("files", ", ".join(report.files)))
    amounts = {"row": report.rows, "slice": report.slices, "wavelet": report.wavelets, "event": report.events}
    counts = [plural(amount, name) for name, amount in amounts.items() if amount is not None]
    if report.tokens is not None:
        counts.append(f"tokens {report.tokens[0]} to {report.tokens[1]}")
    if counts:
        rows.append(("in it", ", ".join(counts)))
    if report.left_out_passes:
        left_out, first = report.left_out_passes, report.first_generated_token
        passes = f"{left_out:,} {'pass' if left_out == 1 else 'passes'}"
        range_hint = (
            "FROM-TO shows others" if first is None else f"{max(0, first - 9)}-{first} shows the end of the prompt"
        )
        rows.append(("omitted", f"{passes}, prompts first: more than a viewer takes; --tokens {range_hint}"))
    if report.to in _OPEN:
        rows.append(("open in", _OPEN[report.to]))
    lines(console, rows)
