"""Print-out of ``wse inspect --pe ROW,COL --dump BUFFER``: elements or bytes of an SRAM buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from rich.console import Console

from wse.reports.terminal import INDENT, count, heading, lines, printable
from wse.reports.tile_name import tile_name
from wse.tracing.query.places.contents import Content, DumpView

MAX_ELEMENTS: Final = 128
"""Number of elements to print if the user requested no number."""
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
