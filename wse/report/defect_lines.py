"""What dead PEs and links cost, in a few lines that several reports share."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import count, heading, lines, percent, several, shown


def print_defects(console: Console, defects: dict[str, Any]) -> None:
    """The dead, what is left, and what it takes to go round."""
    drawn = f", drawn with seed {defects['seed']}" if "seed" in defects else ""
    heading(console, "Defects", f"{shown(defects['given'])}{drawn}")
    cut_off, links = defects["cut_off_pes"], defects["dead_links"]
    dead = several(defects["dead_pes"], "PE")
    if cut_off:
        dead += f", and {several(cut_off, 'PE')} that they cut off"
    if links:
        dead += f", {several(links, 'link')}"
    rows, cols = defects["fabric_rows"], defects["fabric_cols"]
    lost = f"{several(defects['rows_lost'], 'row')} and {several(defects['cols_lost'], 'column')} of {rows}x{cols}"
    extra, streams = defects["extra_hops"], defects["streams_on_a_link"]
    most = max(streams.values())
    sharing = f"; up to {most} of a line's streams share a link" if most > 1 else ""
    share = percent(defects["usable_fraction"])
    lines(
        console,
        [
            ("dead", dead),
            ("lost", f"{lost}: {several(defects['pes_lost'], 'PE')}, {share} are left"),
            ("longest detour", several(defects["longest_detour_hops"], "hop")),
            ("longest lines", f"{count(extra['rows'])} more hops a row, {count(extra['columns'])} a column{sharing}"),
            ("slowdown", f"{defects['slowdown']:.3f} times the cycles a token of as large a mesh without defects"),
        ],
    )
