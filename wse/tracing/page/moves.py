"""The wavelets of the last pass that was executed cycle by cycle, for the page to play again."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.as_json import Report
from wse.tracing.page.pack import Array, Pack, packed_columns
from wse_traces.executed_steps import schedule_rows
from wse_traces.read import Trace
from wse_traces.replay import wavelet_activity, wavelet_cycles, wavelet_passes
from wse_traces.schema import MOVES

MOST_MOVES: Final = 1_000_000
"""Maximum number of moves on the page, the first of the pass. They take a browser about a second and some 100 kB."""
SHOWN: Final = ("cycle", "step", "wafer", "row", "col", "direction")


def move_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return ``moves``: the ``pass``, and the moves of its first cycles as ``columns`` in order of time.

    None where no wavelets were logged. ``direction`` is a code of ``MOVES``: a side of the PE, or its ramp. ``steps``
    are the ``op`` and ``name`` of the steps of the pass, ``token`` is the first that it read or generated, -1: none.

    Raises:
        BadTrace: a move leaves the mesh.
        TraceError: the log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        return {"moves": None}
    moving, counts = wavelet_activity(trace, pass_index=passes[-1])
    shown = int(np.searchsorted(np.cumsum(counts), MOST_MOVES, side="right"))
    if shown == 0:
        notes.append(f"One cycle alone moves {int(counts[0]):,} wavelets; see wse inspect --cycles.")
        return {"moves": None}
    cycles = wavelet_cycles(trace, pass_index=passes[-1], last=int(moving[shown - 1]))
    pieces = [piece for _, piece in cycles]
    columns = {name: np.concatenate([piece[name] for piece in pieces]).astype(np.int64) for name in SHOWN}
    _check_places(trace, columns)
    packed, steps = packed_columns(columns, pack), packed_columns(_steps(trace, passes[-1]), pack)
    if packed is None or steps is None:
        notes.append("The log of wavelets found no room on this page; see wse inspect --cycles.")
        return {"moves": None}
    if shown < len(moving):
        played = len(columns["cycle"])
        notes.append(f"Of {int(counts.sum()):,} moves of wavelets the page plays the first {played:,}.")
    tokens = np.flatnonzero(trace.column("tokens/pass") == passes[-1])[:1].tolist()
    return {"moves": {"pass": passes[-1], "columns": packed, "steps": steps, "token": (tokens or [-1])[0]}}


def _steps(trace: Trace, index: int) -> dict[str, Array]:
    """Return op and kernel or pattern of each step of a pass as indices; empty without such a pass."""
    first, counts = schedule_rows(trace)
    schedule = trace.column("passes/schedule", index, index + 1).tolist()
    start, end = (first[schedule[0]], first[schedule[0]] + counts[schedule[0]]) if schedule else (0, 0)
    return {name: trace.column(f"steps/{name}", int(start), int(end)) for name in ("op", "name")}


def _check_places(trace: Trace, columns: dict[str, Array]) -> None:
    """Raise BadTrace where a move is outside of the mesh, has no direction, or has a negative time or step."""
    header = trace.header
    ends = {"wafer": header.wafers, "row": header.rows, "col": header.cols, "direction": len(MOVES)}
    for name, values in columns.items():
        wrong = (values < 0) | (values >= ends.get(name, 1 << 53))
        if wrong.any():
            message = f"{trace.path}: wavelets/{name}: {values[wrong][0]}, which cannot be; make the trace again"
            raise BadTrace(message)
