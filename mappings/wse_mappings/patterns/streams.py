"""Streams without relays: each carries the words of one PE to another PE.

- Edge stream: all PEs of a line send words to the edge of the mesh, or receive words from there, on
  one colour. The PE closest to the edge sends first. Its router then forwards the words of the PEs that
  are farther away, as in a star reduce. In the opposite direction, the words for the farthest PE
  are sent first.
- Cache shift: the last rows of a region concurrently send their oldest KV-cache entry one row up.
  Two colours alternate by row parity. Source: He et al., WaferLLM, OSDI 2025, section on the KV
  cache.
- Point to point: each stream has its own route. Streams that have no PE in common can share a
  colour, so no switches are needed. The number of colours is the maximum number of streams at one
  PE.
- Translation: PEs of one rectangle send pieces of their words to the PEs of another rectangle.
  Streams travel along their row first, then along the column, all on one colour. On each link, the
  stream with the nearest source leaves first and ends farthest. A PE sends its own words first. Its router
  then forwards the words of PEs that are farther from the destination. A receiver forwards the words
  for PEs farther from the source before it receives its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.plane import PlaneSchedule, PlaneStream, row_then_column
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


EDGE_STREAM = Pattern(
    name="edge_stream",
    samples={
        "edge_stream": lambda sizes: line_case("edge_stream", edge_stream(sizes.length, 1), sizes),
        "entry_stream": lambda sizes: line_case("entry_stream", entry_stream(sizes.length, 1), sizes),
    },
)

SHIFT_COLOURS = 2  # neighbours alternate by parity


def cache_shift(length: int, lines: int, passing: int) -> LineSchedule:
    """Return the messages that move a KV-cache entry from each of a column's last PEs one row up.

    This cache shift frees a cache slot on the last row for the entry of a new token.

    Args:
        length: Number of PEs in a column.
        lines: Number of columns.
        passing: Number of sending PEs, which are the last PEs of the column.
    """
    senders = range(length - passing, length)
    messages = [(row, row - 1, Arrival.REPLACE) for row in senders]
    return uniform_schedule(
        "cache_shift",
        length,
        lines,
        messages,
        colours=SHIFT_COLOURS,
        message_colours=[row % SHIFT_COLOURS for row in senders],
    )


def _sample_cache_shift(sizes: Sizes) -> Case:
    """Return a test case with a KV-cache shift in which a random number of rows send.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the column and the number of words.
    """
    passing = 1 + sizes.number_below(sizes.length - 1)
    return line_case("cache_shift", cache_shift(sizes.length, 1, passing), sizes, f"{passing} pass")


CACHE_SHIFT = Pattern(name="cache_shift", samples={"cache_shift": _sample_cache_shift})

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
    """Return, for each stream, the lowest colour that no overlapping stream uses.

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


def _sample_point_to_point(sizes: Sizes) -> Case:
    """Return a test case with up to four random streams, whose ends are different PEs of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    ends = sizes.rng.permutation(sizes.length)[: 2 * (1 + sizes.number_below(4))]
    streams = tuple((int(a), int(b)) for a, b in zip(ends[::2], ends[1::2], strict=False))
    detail = ", ".join(f"{a} to {b}" for a, b in streams)
    return line_case("point_to_point", point_to_point(sizes.length, 1, streams), sizes, detail)


POINT_TO_POINT = Pattern(name="point_to_point", samples={"point_to_point": _sample_point_to_point})


def translation(
    rows: int, cols: int, source: Rect, target: Rect, pieces: Sequence[tuple[int, int, int]], stride: int = 1
) -> PlaneSchedule:
    """Return streams that move words from one rectangle of PEs to another one of equal width.

    The rectangles do not overlap. Each PE of a sending row sends to the PE of the receiving row in
    the same column of its rectangle.

    Args:
        rows, cols: Size of the mesh.
        source, target: Rectangles that send and receive.
        pieces: (sending row, receiving row, words) of each stream, with rows counted from 0 in each
            rectangle.
        stride: In receiving row r, only columns r % stride, r % stride + stride and so on
            participate.
    """
    row_offset, col_offset = target.row - source.row, target.col - source.col
    streams = []
    for sender, receiver, words in sorted(pieces, key=lambda piece: piece[:2], reverse=row_offset > 0):
        for j in sorted(range(receiver % stride, source.cols, stride), reverse=col_offset > 0):
            start, end = (source.row + sender, source.col + j), (target.row + receiver, target.col + j)
            links = row_then_column(start, end)
            streams.append(PlaneStream(source=start, links=links, receivers=(end,), words=words))
    return PlaneSchedule(
        name="translation", rows=rows, cols=cols, streams=tuple(streams), stream_colours=(0,) * len(streams), colours=1
    )
