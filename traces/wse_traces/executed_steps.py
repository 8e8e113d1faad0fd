"""Steps as passes executed them: those of each pass's schedule, plus the traffic of its own cache shifts."""

from __future__ import annotations

import numpy as np

from wse_traces.errors import TraceError
from wse_traces.trace_file import Array, Columns, TraceFile

_STEP_BYTES = 256  # of an executed step in memory, with what is taken from its pass


def check_index(trace: TraceFile, index: Array, rows: int, where: str) -> None:
    """Raise TraceError if an index of the column ``where`` is not one of ``rows`` rows."""
    if len(index) and not 0 <= index.min() <= index.max() < rows:
        message = f"{trace.path}: {where}: indices out of the {rows} rows they refer to"
        raise TraceError(message)


def schedule_rows(trace: TraceFile) -> tuple[Array, Array]:
    """Return the first step of each schedule, and its number of steps.

    Raises: TraceError if the table of steps has not all of them.
    """
    first, count = trace.column("schedules/first_step"), trace.column("schedules/steps")
    most = trace.rows("step")
    if ((first < 0) | (count < 0) | (first > most - count)).any():
        message = f"{trace.path}: schedules: rows beyond the {most} of steps; make the trace again"
        raise TraceError(message)
    return first, count


def rows_of(first: Array, count: Array) -> Array:
    """Return the rows of several schedules, one after another."""
    rows: Array = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    return rows


def cache_shifts(trace: TraceFile) -> Columns:
    """Return the table of cache shifts with the ``row`` of each in the table of steps.

    Raises: TraceError if one is of no pass, or no step of its schedule.
    """
    shifts, schedule = trace.table("shift"), trace.column("passes/schedule")
    first, count = schedule_rows(trace)
    check_index(trace, shifts["pass"], len(schedule), "shifts/pass")
    schedule = schedule[shifts["pass"]]
    check_index(trace, schedule, len(first), "passes/schedule")
    if ((shifts["step"] < 0) | (shifts["step"] >= count[schedule])).any():
        message = f"{trace.path}: shifts/step: a step that its schedule does not have; make the trace again"
        raise TraceError(message)
    return {**shifts, "row": first[schedule] + shifts["step"]}


def executed_steps(trace: TraceFile, passes: Array) -> Columns:
    """Return the steps of some passes, one pass after another.

    The columns of ``steps``, with ``start_cycle`` counted from the start of the run and the words and hops of the
    pass's own shifts, and ``pass``, ``schedule``, ``phase`` and ``kv_slots``.

    Raises: TraceError if the trace is damaged, or the steps are above its limit.
    """
    schedule = trace.column("passes/schedule")[passes]
    starts, counts = schedule_rows(trace)
    check_index(trace, schedule, len(starts), "passes/schedule")
    first, count = starts[schedule], counts[schedule]
    size = int(count.sum()) * _STEP_BYTES
    if size > trace.limit_bytes:
        message = f"{trace.path}: {size:,} B of steps, the limit is {trace.limit_bytes:,} B; ask for one token"
        raise TraceError(message)
    lowest = int(first.min(initial=trace.rows("step")))
    table = trace.table("step", lowest, max(lowest, int((first + count).max(initial=0))))
    rows = rows_of(first - lowest, count)
    columns = {name: column[rows] for name, column in table.items()}
    columns["start_cycle"] += np.repeat(trace.column("passes/start_cycle")[passes], count)
    _add_shifts(trace, passes, np.cumsum(count) - count, columns)
    of_pass = {
        "pass": passes,
        "schedule": schedule,
        "phase": trace.column("schedules/phase")[schedule],
        "kv_slots": trace.column("schedules/kv_slots")[schedule],
    }
    return {**{name: np.repeat(column, count) for name, column in of_pass.items()}, **columns}


def _add_shifts(trace: TraceFile, passes: Array, begins: Array, columns: Columns) -> None:
    """Add the words and hops of the passes' own cache shifts to columns of their steps."""
    shifts = cache_shifts(trace)
    number = np.full(trace.rows("pass"), -1)
    number[passes] = np.arange(len(passes))
    at = number[shifts["pass"]]
    chosen = at >= 0
    for name in ("words", "hops"):
        np.add.at(columns[name], begins[at[chosen]] + shifts["step"][chosen], shifts[name][chosen])
