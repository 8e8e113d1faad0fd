"""Checks of the times in a trace: steps, the schedules they are in, passes, and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wse_traces.read import Trace

ROUNDING_CYCLES = 2  # starts and lengths of estimated passes are whole cycles, each rounded down


def first_row(wrong: Any) -> Iterator[int]:
    """Yield the first row where something is wrong; nothing if all are right."""
    yield from np.flatnonzero(wrong)[:1].tolist()


def repetitions(values: Any) -> Iterator[tuple[int, int]]:
    """Yield the first value, or row of values, that occurs more than once, and how often.

    Nothing where none is.
    """
    _, first, times = np.unique(values, axis=0, return_index=True, return_counts=True)
    for which in first_row(times > 1):
        yield int(first[which]), int(times[which])


def step_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for steps whose causes do not add up to their cycles."""
    by, cycles = trace.column("steps/cycles_by"), trace.column("steps/cycles")
    wrong = by.sum(axis=1) != cycles
    for row in first_row(wrong):
        yield f"steps/cycles_by[{row}]: the causes add up to {by[row].sum()}, cycles are {cycles[row]}"


def schedule_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for schedules that do not divide the table of steps, or whose cycles differ from their steps."""
    columns, steps = trace.table("schedule"), trace.rows("step")
    begin, count = columns["first_step"], columns["steps"]
    wrong = begin > steps - count
    for row in first_row(wrong):
        yield f"schedules/first_step[{row}]: {count[row]} steps from {begin[row]} of {steps}"
        return
    ends = begin + count
    wrong = begin != np.concatenate([[0], ends[:-1]])[: len(begin)]
    for row in first_row(wrong):
        above = ends[row - 1] if row else 0
        yield f"schedules/first_step[{row}]: {begin[row]}, needed: {above}, where the one above ends"
        return
    if trace.complete and len(ends) and ends[-1] < steps:
        yield f"schedules/steps: {ends[-1]} of the {steps} steps are in schedules, needed: all"
    stops = np.append(trace.column("steps/start_cycle") + trace.column("steps/cycles"), 0)
    filled = count > 0
    last = np.zeros(len(count), "<i8")
    if filled.any():
        last[filled] = np.maximum.reduceat(stops[: ends[-1]], begin[filled])
    wrong = last > columns["cycles"]
    for row in first_row(wrong):
        yield f"schedules/cycles[{row}]: {columns['cycles'][row]}, its last step ends in cycle {last[row]}"


def shift_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for a cache shift whose step is outside the schedule of its pass, and for repeated steps."""
    shifts = trace.table("shift")
    steps = trace.column("schedules/steps")[trace.column("passes/schedule")[shifts["pass"]]]
    wrong = shifts["step"] >= steps
    for row in first_row(wrong):
        yield f"shifts/step[{row}]: {shifts['step'][row]}, the schedule of its pass has {steps[row]} steps"
    for row, times in repetitions(np.stack([shifts["pass"], shifts["step"]], axis=1)):
        of, step = shifts["pass"][row], shifts["step"][row]
        yield f"shifts/step[{row}]: step {step} of pass {of} is there {times} times, needed: once"


def token_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for tokens that share a position, or whose cycles differ from the interval between passes."""
    tokens, passes = trace.table("token"), trace.table("pass")
    for row, times in repetitions(np.stack([tokens["sequence"], tokens["position"]], axis=1)):
        sequence, position = tokens["sequence"][row], tokens["position"][row]
        yield f"tokens/position[{row}]: sequence {sequence} has {times} tokens at {position}, needed: one"
    prompt = tokens["is_prompt"] == 1
    wrong = prompt & (tokens["cycles"] != 0)
    for row in first_row(wrong):
        yield f"tokens/cycles[{row}]: {tokens['cycles'][wrong][0]} in a prompt, needed: 0"
    ends = passes["start_cycle"] + trace.column("schedules/cycles")[passes["schedule"]]
    rows = np.flatnonzero(~prompt & (tokens["pass"] >= 0))
    rows = rows[np.argsort(tokens["sequence"][rows], kind="stable")]
    ended, sequence = ends[tokens["pass"][rows]], tokens["sequence"][rows]
    before = np.where(np.diff(sequence, prepend=-1) == 0, np.concatenate([[0], ended[:-1]])[: len(ended)], 0)
    wrong = np.abs(ended - before - tokens["cycles"][rows]) > ROUNDING_CYCLES
    for at_row in first_row(wrong):
        row, took = rows[at_row], ended[at_row] - before[at_row]
        cycles = tokens["cycles"][row]
        yield f"tokens/cycles[{row}]: {cycles}, its pass ends {took} cycles after that of the token before"
