"""An export on a terminal: the files that were written, and the programs that open them."""

from __future__ import annotations

from typing import Any, Final, TextIO

from wse.report.terminal import console_on, heading, lines, plural, printable

_OPEN: Final = {
    "perfetto": "https://ui.perfetto.dev, or chrome://tracing; 1 µs there is 1 cycle",
    "simulator-log": "wse-viz, as a trace file; row 0 is at the bottom there",
}


def print_export(facts: dict[str, Any], stream: TextIO) -> None:
    """Print the facts of an export."""
    console = console_on(stream)
    heading(console, f"Export to {facts['to']}", "of a run that was not completed" if facts.get("incomplete") else "")
    rows = [("trace", printable(facts["trace"])), ("written", printable(facts["out"]))]
    if "files" in facts:
        rows.append(("files", ", ".join(facts["files"])))
    counts = [plural(facts[f"{name}s"], name) for name in ("row", "slice", "wavelet", "event") if f"{name}s" in facts]
    if "tokens" in facts:
        counts.append(f"tokens {facts['tokens'][0]} to {facts['tokens'][1]}")
    if counts:
        rows.append(("in it", ", ".join(counts)))
    if facts.get("left_out_passes"):
        left_out = facts["left_out_passes"]
        later = f"{left_out:,} later {'pass' if left_out == 1 else 'passes'}"
        first = facts.get("first_generated_token")
        which = "FROM-TO shows others" if first is None else f"{first}-{first + 9} shows the first that were generated"
        rows.append(("left out", f"{later}: more than a viewer takes; --tokens {which}"))
    if facts["to"] in _OPEN:
        rows.append(("open in", _OPEN[facts["to"]]))
    lines(console, rows)
