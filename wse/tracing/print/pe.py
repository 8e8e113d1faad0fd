"""Output of ``wse inspect --pe``: a PE's SRAM map, colours, busy time, links, and a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console

from wse.reports.number_text import count, percent, plural
from wse.reports.shared_tables import sram_table, tile_name
from wse.reports.table import Column, Table, address, number
from wse.reports.terminal import COLOURS, INDENT, heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.query.places.contents import Content, DumpView
from wse.tracing.query.places.pe import Buffer, LinkWords, Pe, PeRoute, PeView
from wse.tracing.query.places.stages import layers_text

MAX_ELEMENTS: Final = 128
"""Default number of elements to print."""
ROW_BYTES: Final = (16, 8)
"""Possible numbers of bytes in a line of hexadecimal digits. The first that fits is used."""
BYTE_WIDTH: Final = 4
"""Characters printed per byte: two digits, the space before them, and the byte as a letter."""


def print_dump(console: Console, view: DumpView, top: int | None, *, as_hex: bool) -> None:
    """Print a description of an SRAM buffer and its first elements.

    Args:
        console: Console to print to.
        view: Contents of the buffer.
        top: Number of elements to print. None prints ``MAX_ELEMENTS``.
        as_hex: Whether to print the bytes in hexadecimal instead of printing the elements as
            numbers.
    """
    content = view.content
    name = printable(tile_name(content.buffer))
    heading(console, name, f"of the PE at row {content.row}, column {content.col} of wafer {content.wafer}")
    size = f"{count(content.bytes)} B from {content.address:#06x} on"
    since = f", as since pass {content.since_pass}" if content.since_pass < content.pass_ else ""
    rows = [
        ("elements", f"{content.dtype}, shape [{', '.join(map(str, content.shape))}], {size}"),
        ("read in", f"pass {content.pass_}, {content.phase}{since}"),
        *_range(content),
        ("", ""),
    ]
    lines(console, rows)
    element_count = min(len(content.elements), MAX_ELEMENTS if top is None else top)
    printed_lines = (
        _hex_lines(content, element_count, console.width)
        if as_hex
        else _number_lines(content, element_count, console.width)
    )
    for line in printed_lines:
        console.print(" " * INDENT + line, soft_wrap=True)
    if element_count < len(content.elements):
        rest = count(len(content.elements) - element_count)
        lines(console, [(f"and {rest} more", "--top N: more of them; --csv FILE, --dump-file FILE: all")])


def _range(content: Content) -> list[tuple[str, str]]:
    """Return a (label, text) row with the minimum, maximum and mean of the finite elements.

    The list is empty if there are no finite elements.
    """
    numbers = content.numbers().astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return []
    missing = len(numbers) - len(finite)
    odd = f"; {count(missing)} infinite or no number" if missing else ""
    return [("values", f"{finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}{odd}")]


def _number_lines(content: Content, element_count: int, width: int) -> Iterator[str]:
    """Yield the elements of a buffer as lines of numbers.

    Each line starts with the index of its first number. The number of elements per line is the
    largest power of two that fits in ``width`` characters.
    """
    texts = [f"{value:.6g}" for value in content.numbers()[:element_count].tolist()]
    cell_width = max(map(len, texts), default=1)
    index_width = len(str(max(0, len(content.elements) - 1)))
    in_row = max(1, (width - INDENT - index_width - 2) // (cell_width + 2))
    in_row = 1 << (in_row.bit_length() - 1)
    for first in range(0, len(texts), in_row):
        yield f"{first:>{index_width}}" + "".join(f"  {text:>{cell_width}}" for text in texts[first : first + in_row])


def _hex_lines(content: Content, element_count: int, width: int) -> Iterator[str]:
    """Yield the bytes of a buffer as lines of an address, hexadecimal bytes, and characters.

    Args:
        content: Contents of a buffer.
        element_count: Number of elements to print.
        width: Line width in characters, which determines the number of bytes per line.
    """
    size = content.bytes // max(1, len(content.elements))
    data = content.raw()[: element_count * size]
    fitting = [row for row in ROW_BYTES if row * BYTE_WIDTH + 12 + INDENT <= width]
    in_row = fitting[0] if fitting else ROW_BYTES[-1]
    for first in range(0, len(data), in_row):
        row = data[first : first + in_row]
        digits = " ".join(f"{byte:02x}" for byte in row)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{content.address + first:#06x}  {digits:<{3 * in_row - 1}}  {letters}"


USE_TEXTS: Final = {"kv": "KV cache"}
AXIS_TEXTS: Final = {"row": "its row", "col": "its column", "both": "row and column"}
MIN_GAP: Final = 16
"""Minimum gap in bytes that is listed as free. Smaller gaps only align the next buffer."""


class _Colours(NamedTuple):
    """Consecutive colours of a PE's router that the same patterns and stages use.

    Attributes:
        first: First colour.
        last: Last colour.
        along: Direction of the communication patterns through the PE: its row, its column, or both.
        patterns: Names of the patterns.
        stages: Stages (groups of layers) that use the colours.
    """

    first: int
    last: int
    along: str
    patterns: str
    stages: str


def print_pe(console: Console, view: PeView) -> None:
    """Print everything that a trace records about one PE."""
    pe, sram = view.pe, view.pe.sram
    heading(console, f"PE at row {pe.row}, column {pe.col}", f"wafer {pe.wafer} of {printable(view.trace)}")
    lines(console, [("stage", _stage(pe)), ("busy", _busy(pe)), *_missing_links(pe)])
    if pe.links is not None:
        print_table(console, _link_table(pe.links))
    if sram is not None:
        size = f"{count(sum(sram.bytes.values()))} B"
        print_table(console, sram_table(sram.bytes, title="SRAM", note=size, width=console.width))
        if sram.buffers:
            note = "" if sram.is_fullest else "of the fullest PE of its stage; this PE has less"
            print_table(console, _map_table(sram.buffers, sum(sram.bytes.values()), note))
    if pe.routes:
        print_table(console, _route_table(pe.routes))


def _stage(pe: Pe) -> str:
    """Return a phrase about the stage that a PE belongs to: index, layers, and rectangle of PEs."""
    if pe.stage is None:
        return "none: no region contains it"
    stage = pe.stage
    rows = f"rows {stage.row} to {stage.row + stage.rows - 1}"
    cols = f"columns {stage.col} to {stage.col + stage.cols - 1}"
    return f"{stage.index}: {layers_text(stage.first_layer, stage.last_layer)}, {rows}, {cols}"


def _busy(pe: Pe) -> str:
    """Return a phrase with the number of cycles in which a PE computes, or why it is unknown."""
    if pe.busy_cycles is None or pe.run_cycles is None:
        return "unknown: busy cycles are counted at the end of a run"
    percentage = "" if pe.busy_fraction is None else f", {percent(pe.busy_fraction)} of the run"
    return f"computes in {count(pe.busy_cycles)} of {count(pe.run_cycles)} cycles{percentage}"


def _missing_links(pe: Pe) -> list[tuple[str, str]]:
    """Return a (label, text) row, as a list, if dead PEs make the words on links unknown.

    The list is empty if the words are known. It is also empty if busy cycles are unknown, because
    the run is then incomplete. Another row says so.
    """
    if pe.links is not None or pe.busy_cycles is None:
        return []
    return [("links", "unknown: PEs are dead, and links are those of the fabric; --links has them")]


def _link_table(links: Mapping[str, LinkWords]) -> Table:
    """Return a table of the words that a PE sends and receives on each of its links."""
    columns = (
        Column(key="direction", cell=lambda side: side[0]),
        Column(key="out", title="out", cell=lambda side: count(side[1].out_words), numeric=True),
        Column(key="in", title="in", cell=lambda side: count(side[1].in_words), numeric=True),
    )
    return Table(title="Links", note="words over the whole run", columns=columns, rows=list(links.items()))


def _map_table(buffers: Sequence[Buffer], size: int, note: str) -> Table:
    """Return a table of the SRAM of a PE: its buffers and the free ranges between them.

    Args:
        buffers: Buffers sorted by address.
        size: SRAM size of the PE in bytes.
        note: Remark after the title.
    """
    columns = (
        address("address", "address"),
        number("bytes", "bytes"),
        Column(key="use", title="for", cell=lambda buffer: USE_TEXTS.get(buffer.use, buffer.use)),
        Column(key="name", title="buffer", cell=lambda buffer: tile_name(printable(buffer.name)), wraps=True),
        Column(key="dtype", title="type"),
        Column(key="live", title="while", cell=_needed_while, wraps=True),
    )
    return Table(
        title="SRAM map",
        note=note,
        columns=columns,
        rows=list(_with_gaps(buffers, size)),
        style=lambda buffer: COLOURS.get(buffer.use, ""),
    )


def _with_gaps(buffers: Sequence[Buffer], size: int) -> Iterator[Buffer]:
    """Yield the buffers of an SRAM map, and the free ranges between and after them.

    Args:
        buffers: Buffers sorted by address.
        size: SRAM size of the PE in bytes.
    """
    end = 0
    for buffer in buffers:
        if buffer.address - end >= MIN_GAP:
            yield _free(end, buffer.address)
        yield buffer
        end = max(end, buffer.address + buffer.bytes)
    if end < size:
        yield _free(end, size)


def _free(start: int, end: int) -> Buffer:
    """Return a free range of addresses as an entry of the SRAM map."""
    return Buffer(address=start, bytes=end - start, use="free", name="", dtype="", live_from="", live_to="")


def _needed_while(buffer: Buffer) -> str:
    """Format the names of the first and last op that need a buffer.

    If both ops belong to layers, the layers follow the op name: "qkv of layers 0 to 3".
    """
    first, last = printable(buffer.live_from), printable(buffer.live_to)
    if not first and not last:
        return "" if buffer.use == "free" else "always"
    if first == last:
        return first
    (_, first_layer, op), (_, last_layer, last_op) = (_parts(name) for name in (first, last))
    if not op or not last_op:
        return f"{first} to {last}"
    layers = f"layer {first_layer}" if first_layer == last_layer else f"layers {first_layer} to {last_layer}"
    return f"{op if op == last_op else f'{op} to {last_op}'} of {layers}"


def _parts(name: str) -> tuple[str, str, str]:
    """Split the name of a layer op, such as ``layers.3.qkv``, at its dots into three parts.

    For other names, the three parts are empty.
    """
    parts = name.split(".", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and parts[1].isdigit() else ("", "", "")


def _route_table(routes: Sequence[PeRoute]) -> Table:
    """Return a table of the colours whose routes are configured on the router of a PE."""
    columns = (
        Column(key="colours", title="colours", cell=_colours_text, numeric=True),
        Column(key="along", title="along"),
        Column(key="patterns", title="pattern", wraps=True),
        Column(key="stages", title="stage"),
    )
    note = f"{plural(len({route.colour for route in routes}), 'colour')} of its router"
    return Table(title="Routes", note=note, columns=columns, rows=_colour_runs(routes))


def _colours_text(colours: _Colours) -> str:
    """Format a range of router colours, such as "3" or "3 to 5"."""
    return str(colours.first) if colours.first == colours.last else f"{colours.first} to {colours.last}"


def _colour_runs(routes: Sequence[PeRoute]) -> list[_Colours]:
    """Return the rows of the table of colours of a PE.

    Consecutive colours have one row if the same communication patterns of the same pipeline stages
    use them. Patterns that share a colour are listed in its row.
    """
    runs: list[_Colours] = []
    for colour, group in groupby(routes, key=lambda route: route.colour):
        sharing = list(group)
        axes = dict.fromkeys(AXIS_TEXTS.get(route.axis, "") for route in sharing)
        patterns = dict.fromkeys(printable(route.pattern) for route in sharing)
        stages = dict.fromkeys(str(route.stage) if route.stage >= 0 else "between stages" for route in sharing)
        row = _Colours(colour, colour, " and ".join(axes), ", ".join(patterns), ", ".join(stages))
        if runs and runs[-1][1:] == (colour - 1, *row[2:]):
            runs[-1] = runs[-1]._replace(last=colour)
        else:
            runs.append(row)
    return runs
