"""Bars of the cycles of a token by cause, for the terminal."""

from __future__ import annotations

from rich.console import Console

from wse.report.terminal import (
    bar,
    count,
    lines,
    percent,
    plain_table,
    show,
)

CAUSES = {
    "compute": "vector operations in the PEs",
    "launch": "starting steps and messages",
    "hops": "words on their way between PEs",
    "relays": "PEs passing words on in code",
    "crossing": "streams from wafer to wafer",
    "host": "to the host computer and back",
}
"""What the cycles of each cause are spent on, in plain words."""


def print_causes(console: Console, by: dict[str, float]) -> None:
    """Cycles by cause, the largest first, each with what it is."""
    total = sum(by.values()) or 1.0
    width = 14 if console.width < 90 else 32
    table = plain_table()
    for right in (False, False, True, True, False):
        table.add_column(justify="right" if right else "left", no_wrap=True)
    for cause, cycles in sorted(by.items(), key=lambda item: -item[1]):
        if cycles:
            share = cycles / total
            table.add_row(cause, bar(share, width, cause), percent(share), count(cycles), CAUSES.get(cause, ""))
    show(console, table)
    unused = [cause for cause, cycles in by.items() if not cycles]
    if unused:
        lines(console, [("none", ", ".join(unused))])
