"""Replay of logged wavelets: which words were on the links, cycle by cycle, and totals per link.

The log is read in parts, so memory use depends on what is requested, not on the size of the log. A
wavelet is one 32-bit word in the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.reader.read import Array, Columns, Trace

_ROWS_AT_ONCE = 1 << 20
_LOG = schema.TABLES["wavelet"]


def wavelet_passes(trace: Trace) -> list[int]:
    """Return the indices of the passes whose wavelets (32-bit words in the fabric) were logged.

    The indices are in ascending order.
    """
    passes: set[int] = set()
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        passes |= set(np.unique(trace.column("wavelets/pass", start, start + _ROWS_AT_ONCE)).tolist())
    return sorted(passes)


def wavelet_words(trace: Trace, *, pass_index: int, before_cycle: int | None = None) -> Array:
    """Return the number of words that left each router in a pass.

    Args:
        trace: An open trace.
        pass_index: Index of a pass whose words were logged.
        before_cycle: Count only words that left before this cycle. None counts all.

    Returns:
        int64 ``[wafer, move, row, col]``. A move is a direction, or the ramp from the router into
        its PE.

    Raises:
        TraceError: The log is damaged or has positions outside of the mesh, or the mesh exceeds the
            size limit of the trace.
    """
    header = trace.header
    trace.check_size("wavelets", (schema.BY_PATH["pe/busy_cycles"],), header.wafers * len(schema.MOVES))
    sizes = {"wafer": header.wafers, "direction": len(schema.MOVES), "row": header.rows, "col": header.cols}
    words = np.zeros(tuple(sizes.values()), np.int64)
    last = None if before_cycle is None else before_cycle - 1
    for moves in _moves(trace, tuple(sizes), pass_index, last=last):
        for name, size in sizes.items():
            is_outside = (moves[name] < 0) | (moves[name] >= size)
            if is_outside.any():
                value = moves[name][is_outside][0]
                raise TraceError(
                    f"{trace.path}: wavelets/{name}: {value}, needed: 0 to {size - 1}; make the trace again"
                )
        np.add.at(words, tuple(moves[name] for name in sizes), 1)
    return words


def wavelet_activity(trace: Trace, *, pass_index: int) -> tuple[Array, Array]:
    """Return the cycles in which words leave a router during a pass, and how many leave in each.

    Args:
        trace: An open trace.
        pass_index: Index of a pass whose words were logged.

    Returns:
        The cycles in ascending order, and the number of words that leave in each; both int64
        ``[cycle]``.

    Raises:
        TraceError: The log is damaged, or its cycles exceed the size limit of the trace.
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
    """Yield the logged moves of wavelets, cycle by cycle.

    A move is a wavelet (a 32-bit word in the fabric) that leaves a router.

    Args:
        trace: An open trace.
        pass_index: Index of a pass whose moves were logged.
        first: First cycle to replay. None replays from the start.
        last: Last cycle to replay. None replays to the end.

    Yields:
        Each cycle with any moves, in ascending order, and the columns of its rows of the log.

    Raises:
        TraceError: The log is damaged, or the moves exceed the size limit of the trace.
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
    """Yield the moves of a pass in the cycles from ``first`` to ``last``, in file order.

    A move is a word that leaves a router.

    Args:
        trace: An open trace.
        names: Columns to return.
        pass_index: Index of a pass whose moves were logged.
        first: First cycle, or None for no lower limit.
        last: Last cycle, or None for no upper limit.
    """
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        selection = trace.column("wavelets/pass", start, stop) == pass_index
        if first is not None or last is not None:
            cycle = trace.column("wavelets/cycle", start, stop)
            selection &= True if first is None else cycle >= first
            selection &= True if last is None else cycle <= last
        if selection.any():
            yield {name: trace.column(f"wavelets/{name}", start, stop)[selection] for name in names}
