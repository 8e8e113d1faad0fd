"""Patterns between wafers whose regions cover the same rectangle.

The columns of the regions are numbered consecutively over all wafers. One column of each wafer, at
the same position, sends and receives over the links between wafers. In an all-reduce, every wafer
adds the words of all wafers in wafer order, so all results are bit-identical. There are two ways to
do this:

- Each wafer sends all its words to every other wafer.
- The words are divided into one part per wafer. Each wafer sums one part (a reduce-scatter) and
  sends the result to the other wafers (an all-gather).

The summation order and the messages listed here are the same in both cases. The second way moves
the minimum number of bytes but adds one link latency. Source: Chan et al., Collective
communication: theory, practice, and experience, Concurrency and Computation 19, 2007.
"""

from __future__ import annotations

from wse_mappings.cuts.split import balanced_segments
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def wafer_all_reduce(cols: int, lines: int, wafers: int, place: int, arrival: Arrival, teams: int = 1) -> LineSchedule:
    """Return the messages of an all-reduce between wafers over one column of each wafer.

    Columns are numbered consecutively over all wafers. Every participating column adds the words of
    all participating columns in the order of the wafers, so all sums are bit-identical.

    Args:
        cols: Total number of columns on all wafers.
        lines: Number of lines (rows).
        wafers: Number of wafers.
        place: Index, within each wafer, of the column that sends and receives.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        teams: Number of groups of neighbouring wafers, each with its own all-reduce.
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
    """Return the messages of a multicast from one wafer to all other wafers.

    One column of the root wafer sends, and one column of every other wafer receives. Columns are
    numbered consecutively over all wafers.

    Args:
        cols: Total number of columns on all wafers.
        lines: Number of lines (rows).
        wafers: Number of wafers.
        root_wafer: Index of the wafer that sends.
        leave: Index of the sending column within the root wafer.
        enter: Index of the receiving column within every other wafer.
    """
    cols_of_wafer = cols // wafers
    targets = [wafer for wafer in range(wafers) if wafer != root_wafer]
    messages = [
        (root_wafer * cols_of_wafer + leave, wafer * cols_of_wafer + enter, Arrival.REPLACE) for wafer in targets
    ]
    return uniform_schedule("from_one_wafer", cols, lines, messages, colours=0)


def wafer_reduce(cols: int, lines: int, wafers: int, root_wafer: int, place: int) -> LineSchedule:
    """Return the messages of a reduce into one wafer, which adds the words of all other wafers.

    The wafer starts from its own words and adds the words of the other wafers in order. Columns are
    numbered consecutively over all wafers.

    Args:
        cols: Total number of columns on all wafers.
        lines: Number of lines (rows).
        wafers: Number of wafers.
        root_wafer: Index of the wafer that computes the sum.
        place: Index, within each wafer, of the column that sends or receives.
    """
    cols_of_wafer = cols // wafers
    root_col, sources = root_wafer * cols_of_wafer + place, [wafer for wafer in range(wafers) if wafer != root_wafer]
    messages = [
        (root_col, root_col, Arrival.COPY),
        *((wafer * cols_of_wafer + place, root_col, Arrival.ADD) for wafer in sources),
    ]
    return uniform_schedule("to_one_wafer", cols, lines, messages, colours=0)
