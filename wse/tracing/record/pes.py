"""Option ``--record-pe``: selects the PEs whose SRAM buffers are recorded in the trace."""

from __future__ import annotations

import re
from typing import Final

from wse.backends.execute.observation.pe_contents import PePlace, has_buffer, readable_buffers
from wse.errors import BadInput
from wse.program.program import Program

PLACE: Final = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,9}),([0-9]{1,9})")
MAX_BYTES: Final = 1 << 30
"""Maximum bytes of buffer contents in a trace. It is what a reader loads at once."""


def recorded_pes(text: str, program: Program, *, passes: int, traced: bool) -> tuple[PePlace, ...]:
    """Return the PEs that ``--record-pe`` selects.

    Args:
        text: Value of the option: ``ROW,COL`` or ``WAFER:ROW,COL``, or several positions joined by
            ``+``.
        program: The compiled Program.
        passes: Maximum number of passes in the run.
        traced: Whether the run writes a trace.

    Raises:
        BadInput: A PE does not exist or belongs to no region, the contents could exceed the maximum
            size, or the run writes no trace.
    """
    if not traced:
        message = f"--record-pe {text}: bytes are kept in the trace, and none is written: give --trace PATH"
        raise BadInput(message)
    places = tuple(dict.fromkeys(_place(part.strip(), program) for part in text.split("+")))
    sizes = [b.bytes for place in places for _, b in readable_buffers(program) if has_buffer(program, b, place)]
    total_bytes = passes * sum(sizes)
    if total_bytes > MAX_BYTES:
        need = f"{sum(sizes):,} B in each of {passes:,} passes are up to {total_bytes:,} B, the limit is {MAX_BYTES:,}"
        message = f"--record-pe {text}: {need}; name fewer PEs, or give a smaller --new-tokens"
        raise BadInput(message)
    return places


def _place(text: str, program: Program) -> PePlace:
    """Parse the position of one PE in the option ``--record-pe``.

    Raises:
        BadInput: The PE does not exist, belongs to no region, or its wafer is not specified.
    """
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
        limits = f"{program.wafers} of {rows}x{cols} PEs, rows 0 to {rows - 1} and columns 0 to {cols - 1}"
        message = f"--record-pe {text}: no such PE; wafers: {limits}; give one of those"
        raise BadInput(message)
    place = PePlace(wafer, row, col)
    if not any(has_buffer(program, buffer, place) for _, buffer in readable_buffers(program)):
        message = f"--record-pe {text}: no region contains this PE, so that nothing is in its SRAM; give another"
        raise BadInput(message)
    return place
