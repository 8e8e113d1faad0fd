"""Passes: the phase of each, the cycles of all, and the bytes that cross between wafers and to the host in them."""

from __future__ import annotations

import numpy as np

from wse.tracing.query.view import name_at
from wse_traces.read import Array, Trace
from wse_traces.schema import HOST, PHASES


def pass_phases(trace: Trace) -> Array:
    """Return the code of each pass's phase, int64 ``[pass]``; -1 where its sequence of steps is unknown."""
    return _of_sequences(trace, "schedules/phase", -1)


def phase_of_pass(trace: Trace, pass_index: int) -> str:
    """Return the phase of a pass; empty where the trace does not say."""
    phases = pass_phases(trace)
    return name_at(PHASES, int(phases[pass_index])) if 0 <= pass_index < len(phases) else ""


def run_cycles(trace: Trace) -> int:
    """Return the cycles from the start of the run to the end of its last pass."""
    cycles = _of_sequences(trace, "schedules/cycles", -1)
    is_finished = cycles >= 0
    return int((trace.column("passes/start_cycle")[is_finished] + cycles[is_finished]).max(initial=0))


def crossing_bytes(trace: Trace) -> dict[tuple[str, bool], float]:
    """Return the bytes of crossings of an average pass, by phase and by whether the host takes part.

    Bytes of loading belong to no phase.
    """
    crossings, phases = trace.table("crossing"), pass_phases(trace)
    inside = (crossings["pass"] >= 0) & (crossings["pass"] < len(phases))
    phase = np.append(phases, -1)[np.where(inside, crossings["pass"], len(phases))]
    host = (crossings["src_wafer"] == HOST) | (crossings["dst_wafer"] == HOST)
    amounts = {}
    for code, name in enumerate(PHASES):
        passes = max(1, int((phases == code).sum()))
        for at_host in (False, True):
            amounts[name, at_host] = int(crossings["bytes"][(phase == code) & (host == at_host)].sum()) / passes
    return amounts


def _of_sequences(trace: Trace, path: str, unknown: int) -> Array:
    """Return a column of sequences of steps for the passes that use them, int64 ``[pass]``."""
    column, sequence = trace.column(path).astype(np.int64), trace.column("passes/schedule")
    in_table = (sequence >= 0) & (sequence < len(column))
    return np.where(in_table, np.append(column, unknown)[np.where(in_table, sequence, len(column))], unknown)
