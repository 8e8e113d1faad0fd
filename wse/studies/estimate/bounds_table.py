"""What limits a token: the estimate beside its bounds, for the whole and by kind of op, by kind of layer, by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from wse.report.terminal import COLOURS, bar, heading, lines, percent, plain_table, short, show

LIMITS: Final = {"sram": "SRAM", "arithmetic": "MACs", "hops": "hops", "crossing": "crossing"}
MOST_ROWS: Final = 16

Row = dict[str, Any]


def print_bounds(console: Console, bounds: dict[str, Any]) -> None:
    """The whole token and its ops."""
    heading(console, "What limits a token", "cycles, and bounds that no software beats on this placement")
    ops = [(f"{row['op'].replace('_', ' ')}{_times(row['count'])}", row) for row in bounds["ops"]]
    _print_rows(console, "op", [*ops, ("whole token", bounds["token"])], bounds["token"]["cycles"])
    lines(console, [("rests on", _rests_on(bounds["token"]))])


def print_levels(console: Console, bounds: dict[str, Any]) -> None:
    """The same token by kind of layer, and by stage."""
    whole = bounds["token"]["cycles"]
    heading(console, "By kind of layer")
    layers = [(f"{row['layers']}{_times(row['count'])}", row) for row in bounds["layers"]]
    _print_rows(console, "layers", layers, whole)
    heading(console, "By stage")
    stages = [(f"{row['stage']} on wafer {row['wafer']}", row) for row in bounds["stages"]]
    _print_rows(console, "stage", stages[:MOST_ROWS], whole)
    print_left(console, stages)


def print_left(console: Console, rows: Sequence[object]) -> None:
    """How many rows there are besides the first ``MOST_ROWS``."""
    if len(rows) > MOST_ROWS:
        lines(console, [("...", f"and {len(rows) - MOST_ROWS} more; --json has them all")])


def _times(number: int) -> str:
    return f" ×{number}" if number > 1 else ""


def _print_rows(console: Console, what: str, rows: list[tuple[str, Row]], whole: float) -> None:
    table = plain_table(header=True)
    table.add_column(what, no_wrap=what != "layers")
    wide = console.width >= 90
    if wide:
        table.add_column("", no_wrap=True)
    for name in ("cycles", *LIMITS.values(), "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limit", no_wrap=True)
    if wide:
        table.add_column("measured", justify="right", no_wrap=True)
    for name, row in rows:
        limit = row.get("limit", "")
        below = [
            Text(short(row["bounds"][bound]), style=COLOURS["hops"] if bound == limit else "bright_black")
            for bound in LIMITS
        ]
        times = f"{row['ratio']:.2f}" if limit else ""
        bound = f"{LIMITS[limit]} ({row['bound_grade']})" if limit else "none"
        share = [bar(row["cycles"] / whole, 8, "hops")] if wide else []
        known = [percent(row["sources"].get("measured", 0.0))] if wide else []
        table.add_row(name, *share, short(row["cycles"]), *below, times, bound, *known)
    show(console, table)


def _rests_on(row: Row) -> str:
    """Shares of the cycles by what is known of their constants."""
    return ", ".join(f"{percent(share)} {source}" for source, share in row["sources"].items()) + " constants"
