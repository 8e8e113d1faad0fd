"""Replay of logged wavelets: what was on the links, cycle by cycle, and how many words each carried.

The log is read a piece at a time: a replay takes memory for what it asks for, not for what was logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.read import Array, Columns, Trace

_ROWS_AT_ONCE = 1 << 20
_LOG = schema.TABLES["wavelet"]


def wavelet_passes(trace: Trace) -> list[int]:
    """Return the passes whose wavelets were logged."""
    passes: set[int] = set()
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        passes |= set(np.unique(trace.column("wavelets/pass", start, start + _ROWS_AT_ONCE)).tolist())
    return sorted(passes)


def wavelet_words(trace: Trace, *, pass_index: int, before_cycle: int | None = None) -> Array:
    """Return the words that left each router in a pass, int64 ``[wafer, move, row, col]``.

    Args:
        trace: An open trace.
        pass_index: One of ``wavelet_passes``.
        before_cycle: Count those of the cycles before; all without it.

    Raises: TraceError if the log is damaged, names a place outside of the mesh, or the mesh is above the trace's limit.
    """
    header = trace.header
    trace.check_size("wavelets", (schema.BY_PATH["pe/busy_cycles"],), header.wafers * len(schema.MOVES))
    sizes = {"wafer": header.wafers, "direction": len(schema.MOVES), "row": header.rows, "col": header.cols}
    words = np.zeros(tuple(sizes.values()), np.int64)
    last = None if before_cycle is None else before_cycle - 1
    for moves in _moves(trace, tuple(sizes), pass_index, last=last):
        for name, size in sizes.items():
            wrong = (moves[name] < 0) | (moves[name] >= size)
            if wrong.any():
                value = moves[name][wrong][0]
                message = f"{trace.path}: wavelets/{name}: {value}, needed: 0 to {size - 1}; make the trace again"
                raise TraceError(message)
        np.add.at(words, tuple(moves[name] for name in sizes), 1)
    return words


def wavelet_activity(trace: Trace, *, pass_index: int) -> tuple[Array, Array]:
    """Return the cycles of a pass in which wavelets leave, ascending, and their number: both int64 ``[cycle]``.

    Raises: TraceError if the log is damaged, or has more cycles than the trace's limit allows.
    """
    cycles, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for moves in _moves(trace, ("cycle",), pass_index):
        moving, times = np.unique(moves["cycle"], return_counts=True)
        event_cycles, place = np.unique(np.concatenate([cycles, moving]), return_inverse=True)
        trace.check_size("wavelets", (schema.BY_PATH["wavelets/cycle"],), 2 * len(event_cycles))
        merged = np.zeros(len(event_cycles), np.int64)
        np.add.at(merged, place, np.concatenate([counts, times]))
        cycles, counts = event_cycles, merged
    return cycles, counts


def wavelet_cycles(
    trace: Trace, *, pass_index: int, first: int | None = None, last: int | None = None
) -> Iterator[tuple[int, Columns]]:
    """Yield each cycle of a pass in which wavelets leave, with the rows of those wavelets.

    Args:
        trace: An open trace.
        pass_index: One of ``wavelet_passes``.
        first: The first cycle to replay; from the start without it.
        last: The last cycle to replay; to the end without it.

    Raises: TraceError if the log is damaged, or those cycles have more moves than the trace's limit allows.
    """
    pieces: list[Columns] = []
    for piece in _moves(trace, tuple(field.name for field in _LOG), pass_index, first=first, last=last):
        pieces.append(piece)
        trace.check_size("wavelets", _LOG, sum(len(part["cycle"]) for part in pieces))
    if not pieces:
        return
    moves = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(moves["cycle"], kind="stable")
    cycles, begins = np.unique(moves["cycle"][order], return_index=True)
    for cycle, start, end in zip(cycles.tolist(), begins, np.append(begins[1:], len(order)), strict=True):
        yield cycle, {name: column[order[start:end]] for name, column in moves.items()}


def _moves(
    trace: Trace, names: Sequence[str], pass_index: int, *, first: int | None = None, last: int | None = None
) -> Iterator[Columns]:
    """Yield the moves of a pass in the cycles from ``first`` to ``last``, in the order of the file."""
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        selection = trace.column("wavelets/pass", start, stop) == pass_index
        if first is not None or last is not None:
            cycle = trace.column("wavelets/cycle", start, stop)
            selection &= True if first is None else cycle >= first
            selection &= True if last is None else cycle <= last
        if selection.any():
            yield {name: trace.column(f"wavelets/{name}", start, stop)[selection] for name in names}
