"""The option ``--record-pe``: the PEs whose buffers a trace shall hold."""

from __future__ import annotations

import re
from typing import Final

from wse.backends.execute.pe_contents import PePlace, holds, readable_buffers
from wse.errors import BadInput
from wse.program.program import Program

PLACE: Final = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,9}),([0-9]{1,9})")
MOST_BYTES: Final = 1 << 30
"""Bytes of buffers in one trace, which is what a reader takes at once."""


def recorded_pes(text: str, program: Program, *, passes: int, traced: bool) -> tuple[PePlace, ...]:
    """Return the PEs that ``ROW,COL`` or ``WAFER:ROW,COL``, or several joined by ``+``, select.

    Args:
        text: The option.
        program: The Program.
        passes: Maximum number of passes.
        traced: Whether there is a trace to write to.

    Raises:
        BadInput: it names no PE, or one that holds nothing, the bytes may be too many, or there is no trace.
    """
    if not traced:
        message = f"--record-pe {text}: bytes are kept in the trace, and none is written: give --trace PATH"
        raise BadInput(message)
    places = tuple(dict.fromkeys(_place(part.strip(), program) for part in text.split("+")))
    sizes = [b.bytes for place in places for _, b in readable_buffers(program) if holds(program, b, place)]
    most = passes * sum(sizes)
    if most > MOST_BYTES:
        need = f"{sum(sizes):,} B in each of {passes:,} passes are up to {most:,} B, the limit is {MOST_BYTES:,}"
        message = f"--record-pe {text}: {need}; name fewer PEs, or give a smaller --new-tokens"
        raise BadInput(message)
    return places


def _place(text: str, program: Program) -> PePlace:
    """Return the PE that one part of the option selects."""
    match = PLACE.fullmatch(text)
    if match is None:
        message = f"--record-pe {text!r}: give row and column as ROW,COL, or WAFER:ROW,COL, such as 0,3 or 1:0,3+1:0,4"
        raise BadInput(message)
    wafer, row, col = (int(part or 0) for part in match.groups())
    rows, cols = program.wafer_rows, program.wafer_cols
    if match[1] is None and program.wafers > 1:
        message = f"--record-pe {text}: there are {program.wafers} wafers; say which, such as 0:{text}"
        raise BadInput(message)
    if wafer >= program.wafers or row >= rows or col >= cols:
        has = f"{program.wafers} of {rows}x{cols} PEs, rows 0 to {rows - 1} and columns 0 to {cols - 1}"
        message = f"--record-pe {text}: no such PE; wafers: {has}; give one of those"
        raise BadInput(message)
    place = PePlace(wafer, row, col)
    if not any(holds(program, buffer, place) for _, buffer in readable_buffers(program)):
        message = f"--record-pe {text}: no region holds this PE, so that nothing is in its SRAM; give another"
        raise BadInput(message)
    return place
