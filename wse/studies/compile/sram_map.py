"""The SRAM map of a PE: buffers by address, when they are in use, and the tables that show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from rich.text import Text

from wse.program.memory_use import fullest_stage
from wse.program.program import Program
from wse.program.stage import Buffer
from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import tile_name
from wse.reports.table import Column, Table, address, number
from wse.reports.terminal import COLOURS, INDENT, NARROW

MARKS = {"code": "░", "weights": "█", "kv": "▓", "state": "▓", "activations": "▒", "buffers": "▒", "free": "·"}
OF_LAYER = re.compile(r"layers\.(\d+)\.")
SHARED = "↔"


class LifetimeResult(Result):
    """Range of steps in a phase during which a buffer contains data that is still needed."""

    phase: Annotated[str, Doc("`prefill`, `decode` or `verify`")]
    chunk: Annotated[int, Doc("index of the phase: chunks of prompts first, then decode, then verification passes")]
    first_step: Annotated[int, Doc("index of the first step")]
    last_step: Annotated[int, Doc("index of the last step")]


class BufferResult(Result):
    """A buffer in the SRAM of a PE. It has the same address on every PE of its stage."""

    address: Annotated[int, Doc("address of its first byte")]
    bytes: Annotated[int, Doc("size", "B")]
    name: Annotated[str, Doc("what the buffer contains")]
    use: Annotated[str, Doc("`code`, `weights`, `kv`, `activations` or `buffers`")]
    dtype: Annotated[str, Doc("element type")]
    live: Annotated[tuple[LifetimeResult, ...], Doc("steps in which the buffer is in use; empty if it always is")]
    shares_with: Annotated[tuple[str, ...], Doc("buffers that use some of the same bytes at other times")]


class SramMapResult(Result):
    """All buffers in the SRAM of the fullest PE, sorted by address."""

    stage: Annotated[int, Doc("index of the stage of this PE")]
    wafer: Annotated[int, Doc("index of the stage's wafer")]
    row: Annotated[int, Doc("row of the stage's first PE")]
    col: Annotated[int, Doc("column of the stage's first PE")]
    decode_steps: Annotated[int, Doc("number of steps of a decoded token")]
    buffers: Annotated[tuple[BufferResult, ...], Doc("buffers, sorted by address")]


def sram_map(program: Program) -> SramMapResult:
    """Return all buffers of the PE that uses the most SRAM, sorted by address."""
    stage = fullest_stage(program)
    stage_of_pe = program.stages[stage]
    return SramMapResult.from_parts(
        stage_of_pe.rect,
        stage=stage,
        wafer=stage_of_pe.wafer,
        decode_steps=len(program.decode.steps),
        buffers=_buffers(program, stage),
    )


def _buffers(program: Program, stage: int) -> tuple[BufferResult, ...]:
    """Return the buffers of one PE of a stage, sorted by address.

    Each buffer lists the buffers with which it shares bytes. A temporary buffer also has a lifetime
    (its first and last step of use) for each phase in which it is used. A buffer without lifetimes
    is always in use.
    """
    buffers = sorted((b for b in program.buffers if b.stage == stage), key=lambda b: (b.address, -b.bytes))
    return tuple(
        BufferResult.from_parts(
            buffer,
            dtype=buffer.element,
            live=tuple(
                LifetimeResult(phase=program.phases[phase].name, chunk=phase, first_step=first, last_step=last)
                for phase, first, last in buffer.live
            ),
            shares_with=tuple(
                other_buffer.name
                for other_buffer in buffers
                if other_buffer is not buffer and _overlap(buffer, other_buffer)
            ),
        )
        for buffer in buffers
    )


def _overlap(a: Buffer, b: Buffer) -> bool:
    return a.address < b.address + b.bytes and b.address < a.address + a.bytes


def map_tables(sram_map: SramMapResult, total: int, width: int) -> list[Table]:
    """Return two tables of a PE's SRAM: a one-line map, and a list of all buffers.

    Both are sorted by address.

    Args:
        sram_map: The SRAM map.
        total: SRAM size of the PE in bytes.
        width: Terminal width in characters.
    """
    return [_strip_table(sram_map, total, width), _buffers_table(sram_map, total, 16 if width < NARROW else 32)]


def _strip_table(sram_map: SramMapResult, total: int, width: int) -> Table:
    """Return a table that shows the SRAM of a PE as one line of characters with a legend.

    Args:
        sram_map: The buffers of the PE.
        total: SRAM size of the PE in bytes.
        width: Terminal width in characters.
    """
    cells, strip, legend = width - 2 * INDENT - 2, Text(), Text()
    for cell in range(cells):
        middle = (cell + 0.5) * total / cells
        use = next((b.use for b in sram_map.buffers if b.address <= middle < b.address + b.bytes), "free")
        strip.append(MARKS[use], style=COLOURS[use])
    for use in ("code", "weights", "kv", "activations", "free"):
        legend.append(MARKS[use], style=COLOURS[use])
        legend.append(f" {'activations, buffers' if use == 'activations' else use}   ", style="bright_black")
    first = f"row {sram_map.row}, col {sram_map.col} of wafer {sram_map.wafer}"
    return Table(
        columns=(Column(key="text", cell=lambda row: row["text"]),),
        rows=[{"text": strip}, {"text": legend}],
        title="Its map",
        note=f"every PE of stage {sram_map.stage}; the first is {first}",
    )


def _buffers_table(sram_map: SramMapResult, total: int, bar_width: int) -> Table:
    """Return a table of all buffers of a PE, sorted by address.

    The last row shows the free bytes.

    Args:
        sram_map: The buffers of the PE.
        total: SRAM size of the PE in bytes.
        bar_width: Width, in characters, of the bars that show when a buffer is in use.
    """
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
        address("address", "address"),
        number("bytes", "bytes"),
        Column(key="use", title="use", cell=lambda row: Text(row["use"], style=COLOURS.get(row["use"], ""))),
        Column(key="name", title="what", wraps=True),
        Column(key="live", title="live in a token", cell=lambda row: row["live"]),
    )
    return Table(columns=columns, rows=rows, footer=_shared_bytes(sram_map.buffers))


def _shared_bytes(buffers: Sequence[BufferResult]) -> tuple[tuple[str, str], ...]:
    """Return the footer of a buffer table, which states how many bytes buffers share.

    Returns:
        One (label, text) pair, or no pair if no buffers share bytes.
    """
    sharing_buffers = [buffer for buffer in buffers if buffer.shares_with]
    if not sharing_buffers:
        return ()
    total_text, covered_text = (
        count(sum(buffer.bytes for buffer in sharing_buffers)),
        count(_covered_bytes(sharing_buffers)),
    )
    text = f"shares bytes with buffers that never live at the same time: {total_text} B of buffers on {covered_text} B"
    return ((SHARED, text),)


@dataclass(kw_only=True)
class _Row:
    """Row of the printed buffer table.

    A row shows a single buffer, or several adjacent buffers with the same purpose, such as the
    weights of layers 0 to 4.
    """

    use: str
    buffers: list[BufferResult]

    @property
    def start(self) -> int:
        """Address of the first byte."""
        return self.buffers[0].address

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return max(b.address + b.bytes for b in self.buffers)

    @property
    def bytes(self) -> int:
        """Total bytes of the buffers."""
        return sum(b.bytes for b in self.buffers)

    @property
    def name(self) -> str:
        """Text that names the buffers of the row.

        It is the name of a single buffer, or for example "layers 0 to 4, each q+k+v 1,024".
        """
        layers = sorted({int(match[1]) for b in self.buffers if (match := OF_LAYER.search(b.name))})
        if not layers or len(self.buffers) == 1:
            return OF_LAYER.sub("", tile_name(self.buffers[0].name)).replace("_", " ")
        first = [b for b in self.buffers if f"layers.{layers[0]}." in b.name]
        names = ", ".join(f"{OF_LAYER.sub('', tile_name(b.name)).replace('_', ' ')} {count(b.bytes)}" for b in first)
        prefix = f"layer {layers[0]}:" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}, each"
        return f"{prefix} {names}"


def _rows(buffers: Sequence[BufferResult]) -> list[_Row]:
    """Group the buffers of a PE into the rows of a table.

    Adjacent buffers form one row if they belong to layers, are always in use and have the same
    purpose, such as weights. Every other buffer has its own row.
    """
    rows: list[_Row] = []
    for buffer in buffers:
        belongs_to_layer = OF_LAYER.search(buffer.name) is not None and not buffer.live
        if rows and belongs_to_layer and rows[-1].use == buffer.use and OF_LAYER.search(rows[-1].buffers[-1].name):
            rows[-1].buffers.append(buffer)
        else:
            rows.append(_Row(use=buffer.use, buffers=[buffer]))
    return rows


_PHASES: Final = {"prefill": "prefill", "verify": "verification passes"}
"""Displayed names of the phases other than decode."""


def _lifetime(row: _Row, steps: int, width: int) -> Text:
    """Return a bar that marks when a buffer is in use while a token is decoded.

    Each position of the bar stands for one or more steps of the token. A phrase is returned instead
    if the buffer is always in use, or if it is used only in other phases, such as prefill.

    Args:
        row: A table row; all its buffers are in use at the same times.
        steps: Number of steps of a decoded token.
        width: Width of the bar in characters.
    """
    live = row.buffers[0].live
    if not live:
        return Text("always", style="bright_black")
    spans = [(s.first_step, s.last_step) for s in live if s.phase == "decode"]
    if not spans:
        phases = " and ".join(_PHASES[phase] for phase in dict.fromkeys(s.phase for s in live))
        return Text(f"only in {phases}", style="bright_black")
    cells = [" "] * width
    for first, last in spans:
        for cell in range(first * width // steps, last * width // steps + 1):
            cells[cell] = "━"
    return Text("".join(cells), style=COLOURS.get(row.use, ""))


def _covered_bytes(buffers: Sequence[BufferResult]) -> int:
    """Return the number of SRAM bytes covered by at least one buffer, counting each byte once."""
    total = end = 0
    for start, stop in sorted((b.address, b.address + b.bytes) for b in buffers):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
