"""All-reduce over segments of a line, built from any reduce or all-reduce of a whole line.

Each segment is treated as a separate line, and its pattern is moved to the segment's position. A
reduce is followed by a multicast. The result goes to the PEs of the segment, or to all PEs of the
line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from wse_mappings.outcome import outcome_of
from wse_mappings.schedule import COMBINING, I32, Arrival, LineSchedule, outward_multicasts, uniform_schedule

Message = tuple[int, int, Arrival]


def all_reduce_on_segments(
    make: Callable[[int], LineSchedule],
    length: int,
    lines: int,
    arrival: Arrival,
    *,
    segments: Sequence[tuple[int, int]] = (),
    to_all: bool = False,
) -> LineSchedule:
    """Return an all-reduce over each of one or more segments of every line of PEs.

    The pattern of a segment is created by a function for whole lines, and moved to the segment. If
    it is a reduce, a multicast of the sum is appended.

    Args:
        make: Function that maps a number of PEs to a reduce or an all-reduce of one line.
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX. It replaces the way in which
            ``make``'s pattern combines operands.
        segments: (index of the first PE, number of PEs) of independent segments; the whole line if
            empty.
        to_all: Whether all PEs of the line receive the result of the only segment.

    Raises:
        ValueError: The pattern is neither a reduce nor an all-reduce, or divides words into parts.
    """
    messages: list[Message] = []
    message_colours: list[int] | None = []
    colours = 1
    for start, count in segments or ((0, length),):
        reached = (0, length) if to_all else (start, start + count)
        schedule, root = _segment_pattern(make, count, arrival) if count > 1 else (None, 0)
        segment_messages = [] if schedule is None else _shifted_messages(schedule.messages, start)
        multicasts = [] if root is None else outward_multicasts(start + root, *reached)
        if root is None and to_all:  # every PE of the segment has the sum; its ends send it on
            last = start + count - 1
            multicasts = outward_multicasts(start, 0, 1) + outward_multicasts(last, length - 1, length)
        messages += segment_messages + multicasts
        multicast_colour = 0 if schedule is None else schedule.colours
        colours = max(colours, multicast_colour + bool(multicasts))  # a router sends both multicasts on one colour
        if message_colours is not None and (schedule is None or schedule.message_colours is not None):
            message_colours += [] if schedule is None else np.asarray(schedule.message_colours).tolist()
            message_colours += [multicast_colour] * len(multicasts)
        else:
            message_colours = None
    return uniform_schedule("own_all_reduce", length, lines, messages, colours, message_colours=message_colours)


def _segment_pattern(
    make: Callable[[int], LineSchedule], count: int, arrival: Arrival
) -> tuple[LineSchedule, int | None]:
    """Return the pattern of a segment, and the PE that gets the result; None if all PEs get it.

    Args:
        make: Function that maps a number of PEs to a reduce or an all-reduce of one line.
        count: Number of PEs in the segment.
        arrival: How two operands are combined.

    Raises:
        ValueError: The pattern is neither a reduce nor an all-reduce, or divides words into parts.
    """
    schedule = make(count)
    outcome = outcome_of(schedule)
    if outcome.collective not in ("reduce", "all_reduce"):
        fault = outcome.fault or f"it computes a {str(outcome.collective).replace('_', '-')}, not a sum"
        raise ValueError(f"on {count} PEs {fault}")
    if schedule.part is not None:
        raise ValueError(
            f"on {count} PEs it cuts words into parts, which may be fewer than its PEs; use one that does not"
        )
    messages = schedule.messages.copy()
    messages[np.isin(messages[:, 2], COMBINING), 2] = arrival
    return replace(schedule, messages=messages), None if outcome.collective == "all_reduce" else outcome.root


def _shifted_messages(messages: I32, start: int) -> list[Message]:
    """Return copies of a line's messages, with all sources and targets moved by ``start`` PEs."""
    return [(source + start, target + start, Arrival(arrival)) for source, target, arrival in messages.tolist()]
