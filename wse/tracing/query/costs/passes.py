"""Passes of a trace: their phases and cycles, and the bytes that cross between wafers in them."""

from __future__ import annotations

import numpy as np

from wse.tracing.query.view import name_at
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import HOST, PHASES


def pass_phases(trace: Trace) -> Array:
    """Return the phase of each pass as a code, int64 ``[pass]``: an index into ``PHASES``.

    The code is -1 if the schedule of the pass is unknown.
    """
    return _schedule_values(trace, "schedules/phase")


def phase_of_pass(trace: Trace, pass_index: int) -> str:
    """Return the name of the phase of a pass, or "" if the trace does not record it."""
    phases = pass_phases(trace)
    return name_at(PHASES, int(phases[pass_index])) if 0 <= pass_index < len(phases) else ""


def run_cycles(trace: Trace) -> int:
    """Return the length of a run in cycles, from its start to the end of its last pass."""
    cycles = _schedule_values(trace, "schedules/cycles")
    is_finished = cycles >= 0
    return int((trace.column("passes/start_cycle")[is_finished] + cycles[is_finished]).max(initial=0))


def crossing_bytes(trace: Trace) -> dict[tuple[str, bool], float]:
    """Return the mean bytes per pass sent between wafers, and between wafers and the host.

    Bytes sent while the model is loaded belong to no phase and are not counted.

    Returns:
        Mean bytes per pass. Each key is a pair of the phase name and whether the host sends or
        receives the bytes.
    """
    crossings, phases = trace.table("crossing"), pass_phases(trace)
    is_in_run = (crossings["pass"] >= 0) & (crossings["pass"] < len(phases))
    phase = np.append(phases, -1)[np.where(is_in_run, crossings["pass"], len(phases))]
    host = (crossings["src_wafer"] == HOST) | (crossings["dst_wafer"] == HOST)
    amounts = {}
    for code, name in enumerate(PHASES):
        passes = max(1, int((phases == code).sum()))
        for at_host in (False, True):
            amounts[name, at_host] = int(crossings["bytes"][(phase == code) & (host == at_host)].sum()) / passes
    return amounts


def _schedule_values(trace: Trace, path: str) -> Array:
    """Look up, for each pass, a property of its schedule (the sequence of steps that it executes).

    Args:
        trace: An open trace.
        path: Path of the column of the schedule table with the property.

    Returns:
        int64 ``[pass]``, with -1 for passes without an existing schedule.
    """
    column, sequence = trace.column(path).astype(np.int64), trace.column("passes/schedule")
    in_table = (sequence >= 0) & (sequence < len(column))
    rows = np.where(in_table, sequence, len(column))
    return np.where(in_table, np.append(column, -1)[rows], -1)
