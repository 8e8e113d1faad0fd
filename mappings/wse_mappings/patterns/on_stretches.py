"""An all-reduce over stretches of a line by any pattern of a whole line: a reduce gets a multicast behind it.

Each stretch is a line by itself, whose pattern is moved to its place. The sum goes to the PEs of the stretch, or to all
of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from wse_mappings.outcome import outcome_of
from wse_mappings.schedule import COMBINING, I32, Arrival, LineSchedule, uniform_schedule

Message = tuple[int, int, Arrival]


def all_reduce_on_stretches(
    make: Callable[[int], LineSchedule],
    length: int,
    lines: int,
    arrival: Arrival,
    *,
    segments: Sequence[tuple[int, int]] = (),
    to_all: bool = False,
) -> LineSchedule:
    """Return the all-reduce of ``arrival`` over each segment of lines of ``length`` PEs.

    Args:
        make: From PEs to a reduce or an all-reduce of one line of as many.
        length: PEs in a line.
        lines: Lines that do the same.
        arrival: How two operands combine: ADD, MAX or ARGMAX, instead of what ``make`` has.
        segments: (start, PEs) of independent stretches; the whole line when empty.
        to_all: Whether the result of the only segment goes to all PEs of the line.

    Raises:
        ValueError: the pattern is neither a reduce nor an all-reduce, or cuts its words into parts.
    """
    messages: list[Message] = []
    message_colours: list[int] | None = []
    colours = 1
    for start, count in segments or ((0, length),):
        ends = (0, length - 1) if to_all else (start, start + count - 1)
        schedule, reduced = _of_count(make, count, arrival) if count > 1 else (None, 0)
        own = [] if schedule is None else _moved(schedule.messages, start)
        sent = [] if reduced is None else _multicasts([start + reduced], ends)
        if reduced is None and to_all:  # an all-reduce of the stretch, whose ends send on
            sent = _multicasts([start], (0, 0)) + _multicasts([start + count - 1], (length - 1, length - 1))
        messages += own + sent
        behind = 0 if schedule is None else schedule.colours
        colours = max(colours, behind + bool(sent))  # a router sends what goes both ways on one colour
        if message_colours is not None and (schedule is None or schedule.message_colours is not None):
            message_colours += [] if schedule is None else np.asarray(schedule.message_colours).tolist()
            message_colours += [behind] * len(sent)
        else:
            message_colours = None
    return uniform_schedule("own_all_reduce", length, lines, messages, colours, message_colours=message_colours)


def _of_count(make: Callable[[int], LineSchedule], count: int, arrival: Arrival) -> tuple[LineSchedule, int | None]:
    """Return the pattern of a segment and its root; None where every PE has the sum."""
    schedule = make(count)
    outcome = outcome_of(schedule)
    if outcome.collective not in ("reduce", "all_reduce"):
        fault = outcome.fault or f"it does a {str(outcome.collective).replace('_', '-')}, no sum"
        message = f"on {count} PEs {fault}"
        raise ValueError(message)
    if schedule.part is not None:
        message = f"on {count} PEs it cuts words into parts, which may be fewer than its PEs; take one that does not"
        raise ValueError(message)
    combined = schedule.messages.copy()
    combined[np.isin(combined[:, 2], COMBINING), 2] = arrival
    return replace(schedule, messages=combined), None if outcome.collective == "all_reduce" else outcome.root


def _moved(messages: I32, start: int) -> list[Message]:
    return [(source + start, target + start, Arrival(what)) for source, target, what in messages.tolist()]


def _multicasts(roots: list[int], ends: tuple[int, int]) -> list[Message]:
    """Return the multicasts of roots to both ends of their segments."""
    return [(root, end, Arrival.MULTICAST) for root in roots for end in dict.fromkeys(ends[::-1]) if end != root]
