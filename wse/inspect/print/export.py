"""An export on a terminal: the files that were written, and the programs that open them."""

from __future__ import annotations

from typing import Any, Final, TextIO

from wse.report.terminal import console_on, heading, lines, plural, printable

_OPEN: Final = {
    "perfetto": "https://ui.perfetto.dev, or chrome://tracing; 1 µs there is 1 cycle",
    "simulator-log": "wse-viz, as a trace file; row 0 is at the bottom there",
}


def print_export(report: dict[str, Any], stream: TextIO) -> None:
    """Print the report of an export."""
    console = console_on(stream)
    heading(console, f"Export to {report['to']}", "of a run that was not completed" if report.get("incomplete") else "")
    rows = [("trace", printable(report["trace"])), ("written", printable(report["out"]))]
    if "files" in report:
        rows.append(("files", ", ".join(report["files"])))
    counts = [plural(report[f"{name}s"], name) for name in ("row", "slice", "wavelet", "event") if f"{name}s" in report]
    if "tokens" in report:
        counts.append(f"tokens {report['tokens'][0]} to {report['tokens'][1]}")
    if counts:
        rows.append(("in it", ", ".join(counts)))
    if report.get("left_out_passes"):
        left_out = report["left_out_passes"]
        later = f"{left_out:,} later {'pass' if left_out == 1 else 'passes'}"
        first = report.get("first_generated_token")
        which = "FROM-TO shows others" if first is None else f"{first}-{first + 9} shows the first that were generated"
        rows.append(("left out", f"{later}: more than a viewer takes; --tokens {which}"))
    if report["to"] in _OPEN:
        rows.append(("open in", _OPEN[report["to"]]))
    lines(console, rows)
