"""Edge stream: all PEs of a line send words to the edge of the mesh, or receive words from there.

One colour is used. The PE closest to the edge sends first, and its router then passes on the words
of the PEs behind it, as in a star reduce. In the opposite direction, the words for the farthest PE
come first.
"""

from __future__ import annotations

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def edge_stream(senders: int, lines: int) -> LineSchedule:
    """Return the messages that send the words of all PEs of a line to the edge of the mesh.

    Words leave the mesh there. The edge is represented by an additional PE at the end of each line,
    which stores nothing.

    Args:
        senders: Number of PEs in a line.
        lines: Number of lines.
    """
    messages = [(pe, senders, Arrival.DROP) for pe in reversed(range(senders))]
    return uniform_schedule("edge_stream", senders + 1, lines, messages, colours=1, message_colours=[0] * senders)


def entry_stream(receivers: int, lines: int) -> LineSchedule:
    """Return the messages that carry words from outside the mesh to all PEs of a line.

    Words enter at the edge of the mesh, which is represented by an additional PE at the start of
    each line.

    Args:
        receivers: Number of PEs in a line.
        lines: Number of lines.
    """
    messages = [(0, pe, Arrival.REPLACE) for pe in range(receivers, 0, -1)]
    return uniform_schedule("entry_stream", receivers + 1, lines, messages, colours=1, message_colours=[0] * receivers)


PATTERN = Pattern(
    name="edge_stream",
    samples={
        "edge_stream": lambda sizes: line_case("edge_stream", edge_stream(sizes.length, 1), sizes),
        "entry_stream": lambda sizes: line_case("entry_stream", entry_stream(sizes.length, 1), sizes),
    },
)
