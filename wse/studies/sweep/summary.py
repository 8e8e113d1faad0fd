"""What ``wse sweep`` says when its table is there."""

from __future__ import annotations

from typing import Any, TextIO

from wse.report.terminal import console_on, count, heading, lines, several
from wse.studies.sweep.progress import duration


def print_sweep(report: dict[str, Any], stream: TextIO) -> None:
    """The table, how many settings it has and how long they took."""
    console = console_on(stream)
    settings, failed, resumed = (report[f"settings{which}"] for which in ("", "_failed", "_resumed"))
    jobs = f"{report['jobs']:,} process{'' if report['jobs'] == 1 else 'es'}"
    rows = [
        ("table", report["table"]),
        ("settings", count(settings) + (f", {count(resumed)} of them done before" if resumed else "")),
        ("time", f"{duration(report['wall_s'])}: {count(report['settings_per_s'])} a second by {jobs}"),
    ]
    if failed:
        rows.append(("no answer", f"{several(failed, 'setting')}: see the column error"))
    heading(console, "Sweep")
    lines(console, rows)
