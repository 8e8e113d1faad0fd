"""A line about a wafer, and SRAM by use as bars, which reports of results and of traces share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rich.console import Console

from wse.report.table import Column, Table
from wse.report.terminal import bar, count, hertz, percent, several, shown
from wse.report.terminal_table import print_table

Use = TypeVar("Use", bound=str)

USES: dict[str, str] = {
    "code": "code, stack, runtime",
    "weights": "weights",
    "kv": "KV cache",
    "activations": "activations",
    "buffers": "transfer buffers",
    "free": "free",
}


def wafer_line(name: str, rows: int, cols: int, clock_hz: float, wafers: int) -> str:
    """``8x8 PEs of wse2 at 850 MHz``."""
    each = "" if wafers == 1 else f"{several(wafers, 'wafer')}, each "
    mesh = f"{rows}x{cols} = {several(rows * cols, 'PE')}"
    return f"{each}{mesh} of {shown(name)} at {hertz(clock_hz)}"


def sram_table(uses: Mapping[Use, int], *, title: str = "", note: str = "", bar_width: int = 40) -> Table:
    """Bytes by use on one PE, as bars."""
    total = sum(uses.values())
    rows = [{"use": use, "bytes": bytes_, "fraction": bytes_ / total} for use, bytes_ in uses.items()]
    columns = (
        Column(key="use", cell=lambda row: USES.get(row["use"], row["use"])),
        Column(key="bar", cell=lambda row: bar(row["fraction"], bar_width, row["use"])),
        Column(key="bytes", cell=lambda row: f"{count(row['bytes'])} B", numeric=True),
        Column(key="fraction", cell=lambda row: percent(row["fraction"]), numeric=True),
    )
    return Table(columns=columns, rows=rows, title=title, note=note)


def print_sram(console: Console, uses: Mapping[Use, int]) -> None:
    """Print bytes by use on one PE, as bars."""
    print_table(console, sram_table(uses, bar_width=24 if console.width < 90 else 40))
