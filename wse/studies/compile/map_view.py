"""The SRAM map of a PE for people: a strip of its bytes by use, and its buffers by address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wse.report.table import Column, Table
from wse.report.terminal import COLOURS, INDENT, count, lines
from wse.report.terminal_table import print_table
from wse.studies.compile.result import BufferResult, SramMapResult

MARKS = {"code": "░", "weights": "█", "kv": "▓", "activations": "▒", "buffers": "▒", "free": "·"}
OF_LAYER = re.compile(r"layers\.(\d+)\.")
SHARED = "↔"


@dataclass(kw_only=True)
class _Row:
    """Neighbouring buffers of one use, as one line of the map."""

    use: str
    buffers: list[BufferResult]

    @property
    def start(self) -> int:
        return self.buffers[0].address

    @property
    def end(self) -> int:
        return max(b.address + b.bytes for b in self.buffers)

    @property
    def bytes(self) -> int:
        return sum(b.bytes for b in self.buffers)

    @property
    def name(self) -> str:
        """``q+k+v`` alone, or ``layers 0 to 4, each q+k+v 1,024, ...``."""
        layers = sorted({int(match[1]) for b in self.buffers if (match := OF_LAYER.search(b.name))})
        if not layers or len(self.buffers) == 1:
            return OF_LAYER.sub("", self.buffers[0].name).replace("_", " ")
        first = [b for b in self.buffers if f"layers.{layers[0]}." in b.name]
        names = ", ".join(f"{OF_LAYER.sub('', b.name).replace('_', ' ')} {count(b.bytes)}" for b in first)
        whose = f"layer {layers[0]}:" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}, each"
        return f"{whose} {names}"


def _rows(buffers: Sequence[BufferResult]) -> list[_Row]:
    """One row a buffer, but one for all layers' weights that stand together, and one for their caches."""
    rows: list[_Row] = []
    for buffer in buffers:
        of_layer = OF_LAYER.search(buffer.name) is not None and not buffer.live
        if rows and of_layer and rows[-1].use == buffer.use and OF_LAYER.search(rows[-1].buffers[-1].name):
            rows[-1].buffers.append(buffer)
        else:
            rows.append(_Row(use=buffer.use, buffers=[buffer]))
    return rows


def print_map(console: Console, sram_map: SramMapResult, total: int) -> None:
    """Print the SRAM of a PE with ``total`` bytes by address, as a strip and as a table."""
    _print_strip(console, sram_map.buffers, total)
    print_table(console, map_table(sram_map, total, bar_width=16 if console.width < 90 else 32))
    sharing = [b for b in sram_map.buffers if b.shares_with]
    if sharing:
        placed, taken = count(sum(b.bytes for b in sharing)), count(_covered(sharing))
        text = f"shares bytes with buffers that never live at the same time: {placed} B of buffers on {taken} B"
        lines(console, [(SHARED, text)])


def map_table(sram_map: SramMapResult, total: int, *, bar_width: int = 32) -> Table:
    """The buffers of a PE with ``total`` bytes by address, and what is free behind them."""
    buffers = _rows(sram_map.buffers)
    rows = [
        {
            "address": row.start,
            "bytes": row.bytes,
            "use": row.use,
            "name": f"{SHARED} {row.name}" if any(b.shares_with for b in row.buffers) else row.name,
            "live": _lifetime(row, sram_map.decode_steps, bar_width),
        }
        for row in buffers
    ]
    end = max((row.end for row in buffers), default=0)
    rows.append({"address": end, "bytes": total - end, "use": "free", "name": "", "live": Text()})
    columns = (
        Column(key="address", title="address", cell=lambda row: count(row["address"]), numeric=True),
        Column(key="bytes", title="bytes", cell=lambda row: count(row["bytes"]), numeric=True),
        Column(key="use", title="use", cell=lambda row: Text(row["use"], style=COLOURS.get(row["use"], ""))),
        Column(key="name", title="what", folds=True),
        Column(key="live", title="live in a token", cell=lambda row: row["live"]),
    )
    return Table(columns=columns, rows=rows)


def _print_strip(console: Console, buffers: Sequence[BufferResult], total: int) -> None:
    """All of the PE's SRAM on one line, by use."""
    width = console.width - 2 * INDENT - 2
    strip = Text(" " * INDENT)
    for cell in range(width):
        middle = (cell + 0.5) * total / width
        use = next((b.use for b in buffers if b.address <= middle < b.address + b.bytes), "free")
        strip.append(MARKS[use], style=COLOURS[use])
    console.print(strip)
    legend = Text(" " * INDENT)
    for use in ("code", "weights", "kv", "activations", "free"):
        name = "activations, buffers" if use == "activations" else use
        legend.append(MARKS[use], style=COLOURS[use])
        legend.append(f" {name}   ", style="bright_black")
    console.print(legend)


def _lifetime(row: _Row, steps: int, width: int) -> Text:
    """Where in the steps of a token the buffer holds something that is still needed."""
    live = row.buffers[0].live
    if not live:
        return Text("always", style="bright_black")
    spans = [(s.first_step, s.last_step) for s in live if s.phase == "decode"]
    if not spans:
        return Text("only while the prompt runs", style="bright_black")
    cells = [" "] * width
    for first, last in spans:
        for cell in range(first * width // steps, last * width // steps + 1):
            cells[cell] = "━"
    return Text("".join(cells), style=COLOURS.get(row.use, ""))


def _covered(buffers: Sequence[BufferResult]) -> int:
    """Bytes of SRAM under any of the buffers."""
    total = end = 0
    for start, stop in sorted((b.address, b.address + b.bytes) for b in buffers):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
