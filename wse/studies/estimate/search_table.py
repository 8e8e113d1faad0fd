"""The layouts that a search tried, as a table."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from wse.report.table import Column, Table
from wse.report.terminal import count, lines, short
from wse.report.terminal_table import print_table
from wse.studies.estimate.search_result import LayoutResult, SearchResult

MOST_ROWS: Final = 8


def search_table(search: SearchResult, clock_hz: float) -> Table:
    """The fastest layouts of a search; a token's time is that with the smallest chunks."""

    def tokens_per_s(row: LayoutResult) -> str:
        return "" if row.token_cycles is None else count(round(clock_hz / row.token_cycles))

    columns = (
        Column(key="chosen", cell=lambda row: "▸" if row.chosen else ""),
        Column(key="mapping", title="mapping", cell=lambda row: row.mapping + (" turned" if row.turned else "")),
        Column(key="bands", title="bands", cell=lambda row: count(row.bands)),
        Column(key="regions_per_band", title="regions", cell=lambda row: f"≤ {row.regions_per_band}"),
        Column(key="groups", title="groups"),
        Column(key="prefill", title="prefill", cell=lambda row: row.prefill.replace("-gemm", "")),
        Column(
            key="needed_bytes_per_pe",
            title="bytes a PE",
            cell=lambda row: count(row.needed_bytes_per_pe) + ("" if row.fits else " ✗"),
            numeric=True,
        ),
        Column(key="tokens_per_s", title="tokens/s", cell=tokens_per_s, numeric=True),
        Column(
            key="request_cycles",
            title="cycles",
            cell=lambda row: "" if row.request_cycles is None else short(row.request_cycles),
            numeric=True,
        ),
    )
    counts = f"{search.tried} tried in small, {search.fitting} fit, {search.compiled} compiled whole"
    return Table(columns=columns, rows=search.layouts[:MOST_ROWS], title="Layouts", note=counts)


def print_search(console: Console, search: SearchResult, clock_hz: float) -> None:
    """Print the fastest layouts of a search, and what the columns mean."""
    print_table(console, search_table(search, clock_hz))
    lines(
        console, [("✗", "does not fit"), ("tokens/s", "about, with the smallest chunks; cycles: of the whole request")]
    )
