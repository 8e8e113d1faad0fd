"""Patterns between wafers: a region of one rectangle on each, whose columns are counted through all of them.

One column of each wafer, at the same place, sends and receives; the words go over the links between wafers. In an
all-reduce every wafer adds up what all have, in the order of the wafers, so that all end with the same bits. Either a
wafer sends all its words to each other one, or the words are cut into as many parts as there are wafers: each wafer
adds up one, a reduce-scatter, and sends the sums to the others, an all-gather. Sums are in one order both ways, and so
are the messages here; the second way takes as few bytes as any, for one more latency of the link. Source: Chan et al.,
Collective communication: theory, practice, and experience, Concurrency and Computation 19, 2007.
"""

from __future__ import annotations

from wse_mappings.schedule import Arrival, LineSchedule, uniform
from wse_mappings.split import balanced_segments


def all_to_all(cols: int, lines: int, wafers: int, place: int, arrival: Arrival, teams: int = 1) -> LineSchedule:
    """Column ``place`` of every wafer gets the words of those of all wafers of its team, combined in their order.

    ``cols`` are those of all ``wafers``; they make ``teams`` of neighbours.
    """
    each, messages = cols // wafers, list[tuple[int, int, Arrival]]()
    for first, count in balanced_segments(wafers, teams):
        columns = [wafer * each + place for wafer in range(first, first + count)]
        for target in columns:
            start = Arrival.KEEP if target == columns[0] else Arrival.REPLACE
            messages.append((columns[0], target, start))
            messages += [(source, target, arrival) for source in columns[1:]]
    return uniform("all_to_all", cols, lines, messages, colours=0)


def to_all(cols: int, lines: int, wafers: int, place: int) -> LineSchedule:
    """Column ``place`` of every wafer gets the words of that of the first."""
    each = cols // wafers
    messages = [(place, wafer * each + place, Arrival.REPLACE) for wafer in range(1, wafers)]
    return uniform("to_all_wafers", cols, lines, messages, colours=0)
