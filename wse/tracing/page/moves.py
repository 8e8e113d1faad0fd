"""The wavelets of the last pass that was simulated cycle by cycle, which the page replays."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.as_json import Report
from wse.tracing.page.pack import Array, Pack, packed_columns
from wse_traces.reader.executed_steps import schedule_rows
from wse_traces.reader.read import Trace
from wse_traces.reader.replay import wavelet_activity, wavelet_cycles, wavelet_passes
from wse_traces.schema import MOVES

MAX_MOVES: Final = 1_000_000
"""Maximum number of moves on the page. A browser needs about a second and 100 kB for them."""
SHOWN: Final = ("cycle", "step", "wafer", "row", "col", "direction")


def move_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the logged wavelet moves in the first cycles of a pass, which the page replays.

    A wavelet is a 32-bit word in transit over the links.

    Args:
        trace: An open trace.
        pack: Function that packs an array for the page.
        notes: List to which a note for the reader is added if moves are omitted.

    Returns:
        ``moves``, which is None if nothing was logged or there is no room. Otherwise:

        - ``pass``: index of the pass
        - ``columns``: the moves in chronological order. ``direction`` is a code of ``MOVES``: a
          side of the PE, or its ramp.
        - ``steps``: ``op`` and ``name`` of each step of the pass
        - ``token``: index of the first token that the pass read or generated, or -1

    Raises:
        BadTrace: A move is outside the mesh.
        TraceError: The log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        return {"moves": None}
    moving, counts = wavelet_activity(trace, pass_index=passes[-1])
    shown_cycles = int(np.searchsorted(np.cumsum(counts), MAX_MOVES, side="right"))
    if shown_cycles == 0:
        notes.append(f"One cycle alone moves {int(counts[0]):,} wavelets; see wse inspect --cycles.")
        return {"moves": None}
    cycles = wavelet_cycles(trace, pass_index=passes[-1], last=int(moving[shown_cycles - 1]))
    parts = [part for _, part in cycles]
    columns = {name: np.concatenate([part[name] for part in parts]).astype(np.int64) for name in SHOWN}
    _check_places(trace, columns)
    packed_moves = packed_columns(columns, pack)
    steps = packed_columns(_steps(trace, passes[-1]), pack)
    if packed_moves is None or steps is None:
        notes.append("The log of wavelets found no room on this page; see wse inspect --cycles.")
        return {"moves": None}
    if shown_cycles < len(moving):
        played = len(columns["cycle"])
        notes.append(f"Of {int(counts.sum()):,} moves of wavelets the page plays the first {played:,}.")
    tokens = np.flatnonzero(trace.column("tokens/pass") == passes[-1])[:1].tolist()
    return {"moves": {"pass": passes[-1], "columns": packed_moves, "steps": steps, "token": (tokens or [-1])[0]}}


def _steps(trace: Trace, index: int) -> dict[str, Array]:
    """Return the op and the kernel or pattern of each step of a pass.

    Both are row numbers in tables of the trace. The columns are empty if the pass does not exist.
    """
    first, counts = schedule_rows(trace)
    schedule = trace.column("passes/schedule", index, index + 1).tolist()
    start, end = (first[schedule[0]], first[schedule[0]] + counts[schedule[0]]) if schedule else (0, 0)
    return {name: trace.column(f"steps/{name}", int(start), int(end)) for name in ("op", "name")}


def _check_places(trace: Trace, columns: dict[str, Array]) -> None:
    """Raise BadTrace if a move is outside the mesh or has an invalid direction, time or step."""
    header = trace.header
    ends = {"wafer": header.wafers, "row": header.rows, "col": header.cols, "direction": len(MOVES)}
    for name, values in columns.items():
        is_invalid = (values < 0) | (values >= ends.get(name, 1 << 53))
        if is_invalid.any():
            message = (
                f"{trace.path}: wavelets/{name}: {values[is_invalid][0]}, which is out of range; make the trace again"
            )
            raise BadTrace(message)
