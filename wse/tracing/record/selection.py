"""Options ``--record`` and ``--record-pe``: select the op outputs and PEs to be recorded."""

from __future__ import annotations

import difflib
import re
from fnmatch import fnmatchcase
from typing import Final

from wse.backends.execute.observation.op_outputs import READABLE
from wse.backends.execute.observation.pe_contents import PePlace, has_buffer, readable_buffers
from wse.errors import BadInput, UnknownName
from wse.program.program import Program
from wse.tracing.requests import pe_place

ACTIVATIONS: Final = "activations"


def recorded_ops(text: str, program: Program, *, traced: bool) -> tuple[int, ...]:
    """Return the indices of the ops that ``--record`` selects, in ascending order.

    Args:
        text: Value of the option: ``activations`` for all ops whose output can be read, or
            ``activations=OP,OP...``, where an op may contain ``*``, as in ``layers.*.attention``.
        program: The compiled Program.
        traced: Whether the run writes a trace.

    Raises:
        BadInput: The option is malformed, an op is unknown or its output cannot be read, or the run
            writes no trace.
    """
    recording, separator, ops = text.partition("=")
    if recording != ACTIVATIONS:
        raise UnknownName("recording", recording, (ACTIVATIONS,), place="--record")
    if not traced:
        raise BadInput(f"--record {text}: tensors are kept in the trace, and none is written: give --trace PATH")
    kinds = dict(zip(program.op_names, program.op_kinds, strict=True))
    readable = [name for name, kind in kinds.items() if kind in READABLE]
    names = readable
    if separator:
        names = [name for pattern in ops.split(",") for name in _matching_ops(pattern.strip(), readable, kinds)]
    return tuple(i for i, name in enumerate(kinds) if name in names)


def _matching_ops(pattern: str, readable: list[str], kinds: dict[str, str]) -> list[str]:
    """Return the ops that a name or a pattern with ``*`` selects.

    Args:
        pattern: Name or pattern.
        readable: Names of the ops whose output can be read.
        kinds: Kind of each op, keyed by op name.

    Raises:
        BadInput: The pattern selects no op whose output can be read.
    """
    matches = [name for name in readable if fnmatchcase(name, pattern)]
    if matches:
        return matches
    unread = next((name for name in kinds if fnmatchcase(name, pattern)), None)
    if unread is not None:
        reason, names = "its result is not stored on PEs as one tensor", _text_of(readable)
        raise BadInput(f"--record {ACTIVATIONS}={pattern}: {unread} cannot be recorded, {reason}; give others: {names}")
    close = difflib.get_close_matches(pattern, readable, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise BadInput(f"--record {ACTIVATIONS}={pattern}: unknown op {pattern!r}: {hint}known: {_text_of(readable)}")


def _text_of(names: list[str]) -> str:
    """Format op names for an error message.

    ``*`` replaces the layer number, and each resulting name is listed once.
    """
    return ", ".join(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", name) for name in names))


MAX_BYTES: Final = 1 << 30
"""Maximum total bytes of buffer contents in a trace, because a reader loads them all at once."""


def recorded_pes(text: str, program: Program, *, passes: int, traced: bool) -> tuple[PePlace, ...]:
    """Return the PEs that ``--record-pe`` selects.

    Args:
        text: Value of the option: ``ROW,COL`` or ``WAFER:ROW,COL``, or several positions joined by
            ``+``.
        program: The compiled Program.
        passes: Maximum number of passes in the run.
        traced: Whether the run writes a trace.

    Raises:
        BadInput: A PE does not exist or stores no part of the model, the contents could exceed the
            maximum size, or the run writes no trace.
    """
    if not traced:
        raise BadInput(f"--record-pe {text}: bytes are kept in the trace, and none is written: give --trace PATH")
    places = tuple(dict.fromkeys(_place(part.strip(), program) for part in text.split("+")))
    sizes = [b.bytes for place in places for _, b in readable_buffers(program) if has_buffer(program, b, place)]
    total_bytes = passes * sum(sizes)
    if total_bytes > MAX_BYTES:
        need = f"{sum(sizes):,} B in each of {passes:,} passes are up to {total_bytes:,} B, the limit is {MAX_BYTES:,}"
        raise BadInput(f"--record-pe {text}: {need}; name fewer PEs, or give a smaller --new-tokens")
    return places


def _place(text: str, program: Program) -> PePlace:
    """Parse the position of one PE in the option ``--record-pe``.

    Raises:
        BadInput: The PE does not exist, stores no part of the model, or its wafer is not specified.
    """
    wafer, row, col = pe_place(text, "--record-pe", "0,3 or 1:0,3+1:0,4")
    rows, cols = program.wafer_rows, program.wafer_cols
    if wafer is None and program.wafers > 1:
        raise BadInput(f"--record-pe {text}: there are {program.wafers} wafers; say which, such as 0:{text}")
    place = PePlace(wafer or 0, row, col)
    if place.wafer >= program.wafers or row >= rows or col >= cols:
        limits = f"{program.wafers} of {rows}x{cols} PEs, rows 0 to {rows - 1} and columns 0 to {cols - 1}"
        raise BadInput(f"--record-pe {text}: no such PE; wafers: {limits}; give one of those")
    if not any(has_buffer(program, buffer, place) for _, buffer in readable_buffers(program)):
        raise BadInput(f"--record-pe {text}: no region contains this PE, so that nothing is in its SRAM; give another")
    return place
