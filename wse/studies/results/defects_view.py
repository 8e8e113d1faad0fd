"""What dead PEs and links cost, as a table that several studies print."""

from __future__ import annotations

from wse.report.table import Table, pair_table
from wse.report.terminal import count, percent, several, shown
from wse.studies.results.defects import DefectsResult


def defects_table(defects: DefectsResult) -> Table:
    """The dead, what is left, and what it takes to go round."""
    drawn = "" if defects.seed is None else f", drawn with seed {defects.seed}"
    cut_off, links = defects.cut_off_pes, defects.dead_links
    dead = several(defects.dead_pes, "PE")
    if cut_off:
        dead += f", and {several(cut_off, 'PE')} that they cut off"
    if links:
        dead += f", {several(links, 'link')}"
    rows, cols = defects.fabric_rows, defects.fabric_cols
    lost = f"{several(defects.rows_lost, 'row')} and {several(defects.cols_lost, 'column')} of {rows}x{cols}"
    extra, most = defects.extra_hops, max(defects.streams_on_a_link.values())
    sharing = f"; up to {most} of a line's streams share a link" if most > 1 else ""
    share = percent(defects.usable_fraction)
    return pair_table(
        [
            ("dead", dead),
            ("lost", f"{lost}: {several(defects.pes_lost, 'PE')}, {share} are left"),
            ("longest detour", several(defects.longest_detour_hops, "hop")),
            ("longest lines", f"{count(extra['rows'])} more hops a row, {count(extra['columns'])} a column{sharing}"),
            ("slowdown", f"{defects.slowdown:.3f} times the cycles a token of as large a mesh without defects"),
        ],
        "Defects",
        f"{shown(defects.given)}{drawn}",
    )
