"""The layouts that a search tried, as a table."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from wse.report.terminal import count, heading, lines, plain_table, short, show

MOST_ROWS: Final = 8


def print_search(console: Console, search: dict[str, Any], clock_hz: float) -> None:
    """The fastest layouts of a report's ``search``; a token's time is that with the smallest chunks."""
    told = f"{search['tried']} tried in small, {search['fitting']} fit, {search['compiled']} compiled whole"
    heading(console, "Layouts", told)
    table = plain_table(header=True)
    for name in ("", "mapping", "bands", "regions", "groups", "prefill"):
        table.add_column(name, no_wrap=True, min_width=1)
    for name in ("bytes a PE", "tokens/s", "cycles"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in search["layouts"][:MOST_ROWS]:
        cycles = row.get("token_cycles")
        table.add_row(
            "▸" if row["chosen"] else "",
            row["mapping"] + (" turned" if row["turned"] else ""),
            count(row["bands"]),
            f"≤ {row['regions_per_band']}",
            str(row.get("groups", "")),
            row["prefill"].replace("-gemm", ""),
            count(row["needed_bytes_per_pe"]) + ("" if row["fits"] else " ✗"),
            "" if cycles is None else count(round(clock_hz / cycles)),
            "" if "request_cycles" not in row else short(row["request_cycles"]),
        )
    show(console, table)
    lines(
        console, [("✗", "does not fit"), ("tokens/s", "about, with the smallest chunks; cycles: of the whole request")]
    )
