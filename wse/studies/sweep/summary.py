"""A sweep in a few lines, printed when its table is there."""

from __future__ import annotations

from typing import TextIO

from wse.report.progress import duration
from wse.report.terminal import console_on, count, heading, lines, several
from wse.studies.sweep.sweep import SweepResult


def print_sweep(result: SweepResult, stream: TextIO) -> None:
    """The table, how many settings it has and how long they took."""
    console = console_on(stream)
    jobs = f"{result.jobs:,} process{'' if result.jobs == 1 else 'es'}"
    resumed = f", {count(result.settings_resumed)} of them done before" if result.settings_resumed else ""
    rows = [
        ("table", result.table),
        ("settings", count(result.settings) + resumed),
        ("time", f"{duration(result.wall_s)}: {count(result.settings_per_s)} a second by {jobs}"),
    ]
    if result.settings_failed:
        rows.append(("no answer", f"{several(result.settings_failed, 'setting')}: see the column error"))
    heading(console, "Sweep")
    lines(console, rows)
