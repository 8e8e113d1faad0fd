"""Replay of logged wavelets: what was on the links, cycle by cycle, and how many words each carried."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.read import Array, Columns, Trace

_ROWS_AT_ONCE = 1 << 20


def wavelet_passes(trace: Trace) -> list[int]:
    """The passes whose wavelets were logged."""
    passes: set[int] = set()
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        passes |= set(np.unique(trace.column("wavelets/pass", start, start + _ROWS_AT_ONCE)).tolist())
    return sorted(passes)


def wavelet_link_words(trace: Trace, *, pass_index: int, before_cycle: int | None = None) -> Array:
    """Words that left each PE on each side in a pass, int64 ``[wafer, direction, row, col]``.

    Args:
        trace: An open trace.
        pass_index: One of ``wavelet_passes``.
        before_cycle: Count those of the cycles before; all without it.

    Raises: TraceError if the log is damaged or names a place outside of the mesh.
    """
    header = trace.header
    words = np.zeros((header.wafers, len(schema.DIRECTIONS), header.rows, header.cols), np.int64)
    for start in range(0, trace.rows("wavelet"), _ROWS_AT_ONCE):
        moves = trace.table("wavelet", start, start + _ROWS_AT_ONCE)
        wanted = (moves["pass"] == pass_index) & (moves["direction"] < len(schema.DIRECTIONS))
        if before_cycle is not None:
            wanted &= moves["cycle"] < before_cycle
        place = tuple(moves[name][wanted] for name in ("wafer", "direction", "row", "col"))
        if any(
            len(part) and not 0 <= part.min() <= part.max() < size
            for part, size in zip(place, words.shape, strict=True)
        ):
            message = f"{trace.path}: wavelets: a place outside of the mesh; make the trace again"
            raise TraceError(message)
        np.add.at(words, place, 1)
    return words


def wavelet_cycles(trace: Trace, *, pass_index: int) -> Iterator[tuple[int, Columns]]:
    """Step through a pass: each cycle in which some wavelet leaves, and the rows of those that do.

    Raises: TraceError if the log is damaged, or larger than the trace's limit.
    """
    moves = trace.table("wavelet")
    mine = np.flatnonzero(moves["pass"] == pass_index)
    order = mine[np.argsort(moves["cycle"][mine], kind="stable")]
    cycles, first = np.unique(moves["cycle"][order], return_index=True)
    for cycle, start, end in zip(cycles.tolist(), first, np.append(first[1:], len(order)), strict=False):
        yield cycle, {name: column[order[start:end]] for name, column in moves.items()}
