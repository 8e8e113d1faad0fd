"""Patterns between wafers: a region of one rectangle on each, whose columns are counted through all of them.

One column of each wafer, at the same place, sends and receives; the words go over the links between wafers. In an
all-reduce every wafer adds up what all have, in the order of the wafers, so that all end with the same bits. Either a
wafer sends all its words to each other one, or the words are cut into as many parts as there are wafers: each wafer
adds up one, a reduce-scatter, and sends the sums to the others, an all-gather. Sums are in one order both ways, and so
are the messages here; the second way takes as few bytes as any, for one more latency of the link. Source: Chan et al.,
Collective communication: theory, practice, and experience, Concurrency and Computation 19, 2007.
"""

from __future__ import annotations

from wse_mappings.cuts.split import balanced_segments
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def wafer_all_reduce(cols: int, lines: int, wafers: int, place: int, arrival: Arrival, teams: int = 1) -> LineSchedule:
    """Return the all-reduce between wafers: column ``place`` of each combines the words of its team in order.

    ``cols`` are those of all ``wafers``; they make ``teams`` of neighbours.
    """
    cols_of_wafer, messages = cols // wafers, list[tuple[int, int, Arrival]]()
    for first, count in balanced_segments(wafers, teams):
        columns = [wafer * cols_of_wafer + place for wafer in range(first, first + count)]
        for target in columns:
            start = Arrival.COPY if target == columns[0] else Arrival.REPLACE
            messages.append((columns[0], target, start))
            messages += [(source, target, arrival) for source in columns[1:]]
    return uniform_schedule("all_to_all", cols, lines, messages, colours=0)


def wafer_multicast(cols: int, lines: int, wafers: int, root_wafer: int, leave: int, enter: int) -> LineSchedule:
    """Return the multicast of one wafer: column ``enter`` of every other receives from column ``leave`` of
    ``root_wafer``.
    """
    cols_of_wafer = cols // wafers
    targets = [wafer for wafer in range(wafers) if wafer != root_wafer]
    messages = [
        (root_wafer * cols_of_wafer + leave, wafer * cols_of_wafer + enter, Arrival.REPLACE) for wafer in targets
    ]
    return uniform_schedule("from_one_wafer", cols, lines, messages, colours=0)


def wafer_reduce(cols: int, lines: int, wafers: int, root_wafer: int, place: int) -> LineSchedule:
    """Return the reduce between wafers: column ``place`` of ``root_wafer`` adds the words of all others in order."""
    cols_of_wafer = cols // wafers
    root_col, sources = root_wafer * cols_of_wafer + place, [wafer for wafer in range(wafers) if wafer != root_wafer]
    messages = [
        (root_col, root_col, Arrival.COPY),
        *((wafer * cols_of_wafer + place, root_col, Arrival.ADD) for wafer in sources),
    ]
    return uniform_schedule("to_one_wafer", cols, lines, messages, colours=0)
