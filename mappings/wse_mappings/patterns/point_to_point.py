"""Point-to-point streams: each carries the words of one PE to another over its own route.

There are no relays. Streams that have no PE in common can share a colour, so no switches are
needed. The number of colours is the maximum number of streams at one PE.
"""

from __future__ import annotations

from itertools import pairwise

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

Stream = tuple[int, int]
"""Source and target, as indices on the line."""


def point_to_point(length: int, lines: int, streams: tuple[Stream, ...]) -> LineSchedule:
    """Return messages that copy the words of some PEs of a line to other PEs of the line.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        streams: (source, target) of each stream.

    Raises:
        ValueError: A stream begins or ends outside the line, ends where it begins, or ends at the
            same PE as another stream.
    """
    for source, target in streams:
        if not (0 <= source < length and 0 <= target < length) or source == target:
            raise ValueError(
                f"point_to_point: a stream from PE {source} to PE {target}; give two PEs from 0 to {length - 1}"
            )
    ends = sorted(target for _, target in streams)
    for end, next_end in pairwise(ends):
        if end == next_end:
            raise ValueError(f"point_to_point: two streams end at PE {end}; give each stream a target of its own")
    message_colours = _lowest_free_colours(streams)
    messages = [(source, target, Arrival.REPLACE) for source, target in streams]
    colours = max(message_colours, default=-1) + 1
    return uniform_schedule("point_to_point", length, lines, messages, colours, message_colours=message_colours)


def _lowest_free_colours(streams: tuple[Stream, ...]) -> list[int]:
    """Return, for each stream, the lowest colour (virtual channel) that no overlapping stream uses.

    A stream is a (source, target) pair of PEs on a line. Streams overlap if they pass the same PE.
    """
    free_from: list[int] = []  # by colour: first PE east of its streams so far
    message_colours = [0] * len(streams)
    for i in sorted(range(len(streams)), key=lambda i: min(streams[i])):
        west, east = sorted(streams[i])
        colour = next((c for c, pe in enumerate(free_from) if pe <= west), len(free_from))
        free_from[colour : colour + 1] = [east + 1]
        message_colours[i] = colour
    return message_colours


def _sample(sizes: Sizes) -> Case:
    """Return a test case with up to four random streams, whose ends are different PEs of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    ends = sizes.rng.permutation(sizes.length)[: 2 * (1 + sizes.number_below(4))]
    streams = tuple((int(a), int(b)) for a, b in zip(ends[::2], ends[1::2], strict=False))
    detail = ", ".join(f"{a} to {b}" for a, b in streams)
    return line_case("point_to_point", point_to_point(sizes.length, 1, streams), sizes, detail)


PATTERN = Pattern(name="point_to_point", samples={"point_to_point": _sample})
