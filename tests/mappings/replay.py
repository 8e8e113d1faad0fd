"""Execution of a line schedule on Python values: numbers, arrays, or labels of words."""

from typing import Any

from wse_mappings.schedule import Arrival, LineSchedule


def replay(
    schedule: LineSchedule, source: list[Any], target: list[Any] | None = None, line: int = 0, round_: int = 0
) -> list[Any]:
    """Return what every PE of one line has at the target address after one round.

    Without ``target``, words are sent and received at the same address.
    """
    source_words = list(source)
    target_words = source_words if target is None else list(target)
    for start, end, arrival in schedule.line_messages(line, round_).tolist():
        if arrival == Arrival.ADD:
            target_words[end] = target_words[end] + source_words[start]
        elif arrival == Arrival.MAX:
            target_words[end] = max(target_words[end], source_words[start])
        elif arrival == Arrival.ARGMAX:
            target_words[end] = max(target_words[end], source_words[start], key=lambda pair: (pair[0], -pair[1]))
        elif arrival == Arrival.MULTICAST:
            for pe in range(min(start, end), max(start, end) + 1):
                if pe != start or target is not None:
                    target_words[pe] = source_words[start]
        elif arrival in (Arrival.REPLACE, Arrival.COPY):
            target_words[end] = source_words[start]
    return target_words


def hops(schedule: LineSchedule, line: int = 0, round_: int = 0) -> list[int]:
    """Return the number of links that each message crosses."""
    return [
        abs(int(start) - int(end))
        for start, end, arrival in schedule.line_messages(line, round_)
        if arrival != Arrival.COPY
    ]
