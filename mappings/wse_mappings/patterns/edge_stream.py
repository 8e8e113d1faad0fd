"""Edge stream: all PEs of a row send to the end of their line, where the words leave, or receive from its beginning.

One colour. The PE next to the end sends first and becomes a wire for those behind it, as in a star reduce; what comes
in goes to the farthest PE first.
"""

from __future__ import annotations

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def edge_stream(senders: int, lines: int) -> LineSchedule:
    """Return streams of ``senders`` PEs to the edge, a place after the last PE that stores nothing."""
    messages = [(pe, senders, Arrival.DROP) for pe in reversed(range(senders))]
    return uniform_schedule("edge_stream", senders + 1, lines, messages, colours=1, message_colours=[0] * senders)


def entry_stream(receivers: int, lines: int) -> LineSchedule:
    """Return streams from the edge, a place before the first PE, to ``receivers`` PEs."""
    messages = [(0, pe, Arrival.REPLACE) for pe in range(receivers, 0, -1)]
    return uniform_schedule("entry_stream", receivers + 1, lines, messages, colours=1, message_colours=[0] * receivers)


PATTERN = Pattern(
    name="edge_stream",
    samples={
        "edge_stream": lambda sizes: line_case("edge_stream", edge_stream(sizes.length, 1), sizes),
        "entry_stream": lambda sizes: line_case("entry_stream", entry_stream(sizes.length, 1), sizes),
    },
)
