"""Cycles of a token by cause, as a table with bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rich.console import Console

from wse.report.table import Column, Table
from wse.report.terminal import bar, count, lines, percent
from wse.report.terminal_table import print_table

Cause = TypeVar("Cause", bound=str)

CAUSES: dict[str, str] = {
    "compute": "vector operations in the PEs",
    "launch": "starting steps and messages",
    "hops": "words on their way between PEs",
    "relays": "PEs passing words on in code",
    "crossing": "streams from wafer to wafer",
    "host": "to the host computer and back",
}
"""What the cycles of each cause are spent on, in plain words."""

TITLE = "Where the cycles of a generated token go"


def causes_table(by: Mapping[Cause, float], *, title: str = "", bar_width: int = 32) -> Table:
    """Cycles by cause, the largest first, each with what it is; causes without any are left out."""
    total = sum(by.values()) or 1.0
    rows = [
        {"cause": cause, "share": cycles / total, "cycles": cycles, "meaning": CAUSES.get(cause, "")}
        for cause, cycles in sorted(by.items(), key=lambda item: -item[1])
        if cycles
    ]
    columns = (
        Column(key="cause"),
        Column(key="bar", cell=lambda row: bar(row["share"], bar_width, row["cause"])),
        Column(key="share", cell=lambda row: percent(row["share"]), numeric=True),
        Column(key="cycles", cell=lambda row: count(row["cycles"]), numeric=True),
        Column(key="meaning"),
    )
    return Table(columns=columns, rows=rows, title=title)


def print_causes(console: Console, by: Mapping[Cause, float]) -> None:
    """Print cycles by cause, and the causes that have none."""
    print_table(console, causes_table(by, bar_width=14 if console.width < 90 else 32))
    unused = [cause for cause, cycles in by.items() if not cycles]
    if unused:
        lines(console, [("none", ", ".join(unused))])
