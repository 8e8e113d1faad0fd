"""Validate the times in a trace: steps, their schedules, passes and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wse_traces.reader.read import Trace

ROUNDING_CYCLES = 2  # starts and lengths of estimated passes are whole cycles, each rounded down


def first_row(condition: Any) -> Iterator[int]:
    """Yield the index of the first true element of an array, or nothing if all are false."""
    yield from np.flatnonzero(condition)[:1].tolist()


def repetitions(values: Any) -> Iterator[tuple[int, int]]:
    """Yield the row of a value that occurs more than once, and the number of its occurrences.

    Only the first such value is yielded, or nothing if all values are distinct.

    Args:
        values: Array ``[n]``, or ``[n, k]`` to compare whole rows.
    """
    _, first, times = np.unique(values, axis=0, return_index=True, return_counts=True)
    for at in first_row(times > 1):
        yield int(first[at]), int(times[at])


def step_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first step whose per-cause cycles do not add up to its cycles."""
    cycles_by, cycles = trace.column("steps/cycles_by"), trace.column("steps/cycles")
    differs = cycles_by.sum(axis=1) != cycles
    for row in first_row(differs):
        yield f"steps/cycles_by[{row}]: the causes add up to {cycles_by[row].sum()}, cycles are {cycles[row]}"


def schedule_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the schedules, the sequences of steps.

    1. A schedule extends beyond the step table.
    2. A schedule does not start where the previous one ends.
    3. In a complete trace, steps at the end of the table belong to no schedule.
    4. The duration of a schedule is shorter than the end of its last step.

    After an error of the first two kinds, the remaining checks are skipped.
    """
    columns, steps = trace.table("schedule"), trace.rows("step")
    begin, count = columns["first_step"], columns["steps"]
    exceeds = begin > steps - count
    for row in first_row(exceeds):
        yield f"schedules/first_step[{row}]: {count[row]} steps from {begin[row]} of {steps}"
        return
    ends = begin + count
    has_gap = begin != np.concatenate([[0], ends[:-1]])[: len(begin)]
    for row in first_row(has_gap):
        previous_end = ends[row - 1] if row else 0
        yield f"schedules/first_step[{row}]: {begin[row]}, needed: {previous_end}, where the one above ends"
        return
    if trace.complete and len(ends) and ends[-1] < steps:
        yield f"schedules/steps: {ends[-1]} of the {steps} steps are in schedules, needed: all"
    stops = np.append(trace.column("steps/start_cycle") + trace.column("steps/cycles"), 0)
    has_steps = count > 0
    last = np.zeros(len(count), "<i8")
    if has_steps.any():
        last[has_steps] = np.maximum.reduceat(stops[: ends[-1]], begin[has_steps])
    is_too_short = last > columns["cycles"]
    for row in first_row(is_too_short):
        yield f"schedules/cycles[{row}]: {columns['cycles'][row]}, its last step ends in cycle {last[row]}"


def shift_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the records of KV-cache shifts.

    A cache shift moves entries of a KV cache between rows of PEs. A record names a pass and a step
    of the schedule of that pass. Two errors are detected:

    1. The schedule of the pass has no step with that index.
    2. Several records name the same step of the same pass.

    Only the first faulty record of each kind is reported.
    """
    shifts = trace.table("shift")
    steps = trace.column("schedules/steps")[trace.column("passes/schedule")[shifts["pass"]]]
    is_missing = shifts["step"] >= steps
    for row in first_row(is_missing):
        yield f"shifts/step[{row}]: {shifts['step'][row]}, the schedule of its pass has {steps[row]} steps"
    for row, times in repetitions(np.stack([shifts["pass"], shifts["step"]], axis=1)):
        pass_index, step = shifts["pass"][row], shifts["step"][row]
        yield f"shifts/step[{row}]: step {step} of pass {pass_index} is there {times} times, needed: once"


def token_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the positions and cycles of tokens.

    1. Two tokens of a sequence have the same position.
    2. A prompt token has cycles.
    3. The cycles of a generated token differ from the time between the end of the previous token's
       pass and the end of its own pass.

    Only the first faulty token of each kind is reported.
    """
    tokens, passes = trace.table("token"), trace.table("pass")
    for row, times in repetitions(np.stack([tokens["sequence"], tokens["position"]], axis=1)):
        sequence, position = tokens["sequence"][row], tokens["position"][row]
        yield f"tokens/position[{row}]: sequence {sequence} has {times} tokens at {position}, needed: one"
    prompt = tokens["is_prompt"] == 1
    is_timed = prompt & (tokens["cycles"] != 0)
    for row in first_row(is_timed):
        yield f"tokens/cycles[{row}]: {tokens['cycles'][row]} in a prompt, needed: 0"
    ends = passes["start_cycle"] + trace.column("schedules/cycles")[passes["schedule"]]
    rows = np.flatnonzero(~prompt & (tokens["pass"] >= 0))
    rows = rows[np.argsort(tokens["sequence"][rows], kind="stable")]
    token_end, sequence = ends[tokens["pass"][rows]], tokens["sequence"][rows]
    is_same_sequence = np.diff(sequence, prepend=-1) == 0
    previous_end = np.where(is_same_sequence, np.concatenate([[0], token_end[:-1]])[: len(token_end)], 0)
    differs = np.abs(token_end - previous_end - tokens["cycles"][rows]) > ROUNDING_CYCLES
    for at_row in first_row(differs):
        row, interval = rows[at_row], token_end[at_row] - previous_end[at_row]
        cycles = tokens["cycles"][row]
        yield f"tokens/cycles[{row}]: {cycles}, its pass ends {interval} cycles after that of the token before"
