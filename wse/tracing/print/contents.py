"""Print-out of ``wse inspect --pe ROW,COL --dump BUFFER``: numbers, or bytes in hexadecimal digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from rich.console import Console

from wse.reports.terminal import INDENT, count, heading, lines, printable
from wse.reports.tile_name import tile_name
from wse.tracing.query.places.contents import Content, DumpView

MOST: Final = 128
"""Elements that are shown where nobody said how many."""
ROW_BYTES: Final = (16, 8)
"""Bytes of a line of hexadecimal digits, as many as fit."""
BYTE_WIDTH: Final = 4
"""Characters that a byte takes: two digits, the space before them, and its letter."""


def print_dump(console: Console, view: DumpView, top: int | None, *, as_hex: bool) -> None:
    """Print the first elements of a buffer, and its description."""
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
    most = min(len(content.elements), MOST if top is None else top)
    shown = _hex_lines(content, most, console.width) if as_hex else _number_lines(content, most, console.width)
    for line in shown:
        console.print(" " * INDENT + line, soft_wrap=True)
    if most < len(content.elements):
        rest = count(len(content.elements) - most)
        lines(console, [(f"and {rest} more", "--top N: more of them; --csv FILE, --dump-file FILE: all")])


def _range(content: Content) -> list[tuple[str, str]]:
    """Return minimum, maximum and mean of the finite elements."""
    numbers = content.numbers().astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return []
    missing = len(numbers) - len(finite)
    odd = f"; {count(missing)} infinite or no number" if missing else ""
    return [("values", f"{finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}{odd}")]


def _number_lines(content: Content, most: int, width: int) -> Iterator[str]:
    """Yield the elements in rows, each after the index of its first element."""
    texts = [f"{value:.6g}" for value in content.numbers()[:most].tolist()]
    wide = max(map(len, texts), default=1)
    index = len(str(max(0, len(content.elements) - 1)))
    in_row = max(1, (width - INDENT - index - 2) // (wide + 2))
    in_row = 1 << (in_row.bit_length() - 1)
    for first in range(0, len(texts), in_row):
        yield f"{first:>{index}}" + "".join(f"  {text:>{wide}}" for text in texts[first : first + in_row])


def _hex_lines(content: Content, most: int, width: int) -> Iterator[str]:
    """Yield the bytes in rows, each after the address of its first byte, with printable characters."""
    size = content.bytes // max(1, len(content.elements))
    data = content.raw()[: most * size]
    fitting = [row for row in ROW_BYTES if row * BYTE_WIDTH + 12 + INDENT <= width]
    in_row = fitting[0] if fitting else ROW_BYTES[-1]
    for first in range(0, len(data), in_row):
        row = data[first : first + in_row]
        digits = " ".join(f"{byte:02x}" for byte in row)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{content.address + first:#06x}  {digits:<{3 * in_row - 1}}  {letters}"
