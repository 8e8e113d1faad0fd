"""Passes: the phase of each, when it began and how long it took."""

from __future__ import annotations

import numpy as np

from wse.inspect.query.source import name_at
from wse_traces.read import Array, Trace
from wse_traces.schema import PHASES


def pass_phases(trace: Trace) -> Array:
    """The code of each pass's phase, int64 ``[pass]``; -1 where its sequence of steps is unknown."""
    return _of_sequences(trace, "schedules/phase", -1)


def phase_of_pass(trace: Trace, pass_index: int) -> str:
    """The phase of a pass; empty where the trace does not say."""
    phases = pass_phases(trace)
    return name_at(PHASES, int(phases[pass_index])) if 0 <= pass_index < len(phases) else ""


def run_cycles(trace: Trace) -> int:
    """The cycles from the start of the run to the end of its last pass."""
    cycles = _of_sequences(trace, "schedules/cycles", -1)
    known = cycles >= 0
    return int((trace.column("passes/start_cycle")[known] + cycles[known]).max(initial=0))


def _of_sequences(trace: Trace, path: str, unknown: int) -> Array:
    """A column of sequences of steps for the passes that carried them out, int64 ``[pass]``."""
    column, sequence = trace.column(path).astype(np.int64), trace.column("passes/schedule")
    known = (sequence >= 0) & (sequence < len(column))
    return np.where(known, np.append(column, unknown)[np.where(known, sequence, len(column))], unknown)
