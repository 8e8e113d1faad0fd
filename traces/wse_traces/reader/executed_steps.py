"""Executed steps: the steps of each pass's schedule, plus the traffic of its cache shifts."""

from __future__ import annotations

import numpy as np

from wse_traces.errors import TraceError
from wse_traces.reader.trace_file import Array, Columns, TraceFile

_STEP_BYTES = 256  # memory of an executed step, including the columns of its pass


def check_index(trace: TraceFile, index: Array, rows: int, column_name: str) -> None:
    """Raise TraceError unless all entries of an index column are rows of the table it refers to.

    Args:
        trace: An open trace.
        index: Entries of the column, int ``[n]``.
        rows: Number of rows of the table that the entries refer to.
        column_name: Path of the column, for the error message.
    """
    if len(index) and not 0 <= index.min() <= index.max() < rows:
        raise TraceError(f"{trace.path}: {column_name}: indices out of the {rows} rows they refer to")


def schedule_rows(trace: TraceFile) -> tuple[Array, Array]:
    """Return which rows of the step table belong to each schedule (a sequence of steps).

    Returns:
        First row, int ``[schedule]``, and number of rows, int ``[schedule]``.

    Raises:
        TraceError: A schedule extends beyond the step table.
    """
    first, count = trace.column("schedules/first_step"), trace.column("schedules/steps")
    step_count = trace.rows("step")
    if ((first < 0) | (count < 0) | (first > step_count - count)).any():
        raise TraceError(f"{trace.path}: schedules: rows beyond the {step_count} of steps; make the trace again")
    return first, count


def rows_of(first: Array, count: Array) -> Array:
    """Return all row numbers in several ranges of rows, one range after another.

    Args:
        first: First row of each range, int ``[range]``.
        count: Number of rows of each range, int ``[range]``.
    """
    rows: Array = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    return rows


def cache_shifts(trace: TraceFile) -> Columns:
    """Return the table of cache shifts, with an additional column ``row``.

    A cache shift moves entries of a KV cache between rows of PEs. ``row`` is the index of its step
    in the step table.

    Raises:
        TraceError: A cache shift refers to a missing pass, or to no step in the schedule of its
            pass.
    """
    shifts, schedule = trace.table("shift"), trace.column("passes/schedule")
    first, count = schedule_rows(trace)
    check_index(trace, shifts["pass"], len(schedule), "shifts/pass")
    schedule = schedule[shifts["pass"]]
    check_index(trace, schedule, len(first), "passes/schedule")
    if ((shifts["step"] < 0) | (shifts["step"] >= count[schedule])).any():
        raise TraceError(f"{trace.path}: shifts/step: a step that its schedule does not have; make the trace again")
    return {**shifts, "row": first[schedule] + shifts["step"]}


def executed_steps(trace: TraceFile, passes: Array) -> Columns:
    """Return the concatenated steps of several passes.

    A pass is one execution of a schedule, which is a sequence of steps.

    Args:
        trace: An open trace.
        passes: Indices of the passes.

    Returns:
        The columns of ``steps``, and ``pass``, ``schedule``, ``phase`` and ``kv_slots``.
        ``start_cycle`` is counted from the start of the run. ``words`` and ``hops`` include the
        cache shifts (moves of KV-cache entries between rows of PEs) of each pass.

    Raises:
        TraceError: The trace is damaged, or the steps exceed its size limit.
    """
    schedule = trace.column("passes/schedule")[passes]
    starts, counts = schedule_rows(trace)
    check_index(trace, schedule, len(starts), "passes/schedule")
    first, count = starts[schedule], counts[schedule]
    size = int(count.sum()) * _STEP_BYTES
    if size > trace.limit_bytes:
        raise TraceError(f"{trace.path}: {size:,} B of steps, the limit is {trace.limit_bytes:,} B; ask for one token")
    lowest = int(first.min(initial=trace.rows("step")))
    table = trace.table("step", lowest, max(lowest, int((first + count).max(initial=0))))
    rows = rows_of(first - lowest, count)
    columns = {name: column[rows] for name, column in table.items()}
    columns["start_cycle"] += np.repeat(trace.column("passes/start_cycle")[passes], count)
    _add_shifts(trace, passes, np.cumsum(count) - count, columns)
    pass_columns = {
        "pass": passes,
        "schedule": schedule,
        "phase": trace.column("schedules/phase")[schedule],
        "kv_slots": trace.column("schedules/kv_slots")[schedule],
    }
    return {**{name: np.repeat(column, count) for name, column in pass_columns.items()}, **columns}


def _add_shifts(trace: TraceFile, passes: Array, begins: Array, columns: Columns) -> None:
    """Add the words and hops of cache shifts to the columns of the executed steps.

    A cache shift moves entries of a KV cache between rows of PEs, as part of a step.

    Args:
        trace: An open trace.
        passes: Indices of the executed passes.
        begins: For each of these passes, the index of its first step in the columns.
        columns: Columns of the executed steps; ``words`` and ``hops`` are changed in place.
    """
    shifts = cache_shifts(trace)
    number = np.full(trace.rows("pass"), -1)
    number[passes] = np.arange(len(passes))
    at = number[shifts["pass"]]
    is_executed = at >= 0
    for name in ("words", "hops"):
        np.add.at(columns[name], begins[at[is_executed]] + shifts["step"][is_executed], shifts[name][is_executed])
