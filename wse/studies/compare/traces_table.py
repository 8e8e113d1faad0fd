"""What ``wse compare A.h5 B.h5`` prints: both runs under the columns of a comparison, and what changed."""

from __future__ import annotations

from typing import Any, Final, TextIO

from wse.report.changes_table import print_changes
from wse.report.terminal import console_on, heading, lines, shown
from wse.studies.compare.table import print_rows

CHANGED: Final = {"prefill": "What changed in reading the prompts", "decode": "What changed in a generated token"}


def print_traces(report: dict[str, Any], stream: TextIO) -> None:
    """Print the report of two traces."""
    console = console_on(stream)
    heading(console, "Runs", "the same Program" if report["same_program"] else "")
    lines(console, [(str(number), told) for number, told in enumerate(runs(report), start=1)])
    heading(console, "Speed")
    print_rows(console, report["rows"])
    for phase, changes in report["changes"].items():
        heading(console, CHANGED[phase], "in cycles; the largest of each kind first")
        print_changes(console, changes)


def runs(report: dict[str, Any]) -> list[str]:
    """What each trace is of."""
    return [f"{shown(row['trace'])}: {shown(row['model'])}, {shown(row['mapping'])}" for row in report["rows"]]
