"""Flooding multicast along a line, from one root for all lines or from the diagonal of a square."""

from __future__ import annotations

import numpy as np

from wse_mappings.patterns.pattern import LineCollective, Pattern, Terms
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import (
    Arrival,
    LineSchedule,
    even_schedule,
    outward_multicasts,
    uniform_schedule,
    varied_schedule,
)


def _segment_multicast(root: int, start: int, end: int) -> list[tuple[int, int, Arrival]]:
    """Return the messages of a multicast from a PE to PEs ``start`` to ``end`` - 1 of its line.

    The root also copies its own words, so that all PEs store them at the target address.
    """
    return [(root, root, Arrival.COPY), *outward_multicasts(root, start, end)]


COLOURS = 2  # one for each direction


def multicast(
    length: int, lines: int, root: int, segment_count: int = 1, *, shared_colours: bool = False
) -> LineSchedule:
    """Return the messages of a multicast from one PE to all PEs of its line or line segment.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        root: Index of the sending PE in each line or segment.
        segment_count: Number of equal segments of a line, each with its own multicast.
        shared_colours: Whether both directions share one colour, which the root's router
            forwards in both directions.
    """
    segment_length = length // segment_count
    messages = [
        message
        for start in range(0, length, segment_length)
        for message in _segment_multicast(start + root, start, start + segment_length)
    ]
    return uniform_schedule("multicast", length, lines, messages, colours=1 if shared_colours else COLOURS)


def diagonal_multicast(length: int) -> LineSchedule:
    """Return the messages that send the words of PE i of line i to all PEs of that line.

    The lines form a square, so the senders are on its diagonal. If their words are blocks of a
    vector that is divided along one axis of the square, the vector is then divided along the other
    axis.
    """
    groups = [_segment_multicast(root, 0, length) for root in range(length)]
    variants = np.arange(length, dtype=np.int32)[None, :]
    return varied_schedule(
        "diagonal_multicast", length, groups, variants, colours=COLOURS, slowest_variants=(0, length - 1)
    )


def shared_multicast(
    length: int, lines: int, first: int, count: int, stride: int, *, shared_colours: bool = False
) -> LineSchedule:
    """Return a multicast from several PEs of each line, called roots, to the PEs around them.

    The roots are among the ``count`` PEs that start at PE ``first``. In line i, they are PEs
    ``first + i % stride``, ``first + i % stride + stride`` and so on. Each sends to a segment of
    ``stride`` PEs around it. The segments of the first and the last root extend to the ends of the
    line.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        first: First PE that may be a root.
        count: Number of PEs that may be roots, at least ``stride``.
        stride: Distance between neighbouring roots of a line.
        shared_colours: Whether both directions share one colour, which a root's router
            forwards in both directions.
    """
    variants, farthest = [], []
    for residue in range(min(stride, lines)):
        roots = range(first + residue, first + count, stride)
        starts = [0, *(root - residue for root in roots[1:]), length]
        segments = list(zip(roots, starts[:-1], starts[1:], strict=True))
        variants.append([message for segment in segments for message in _segment_multicast(*segment)])
        farthest.append(max(max(root - start, end - 1 - root) for root, start, end in segments))
    variant_of_line = np.arange(lines, dtype=np.int32)[None, :] % len(variants)
    slowest_variants = (int(np.argmax(farthest)),)
    colours = 1 if shared_colours else COLOURS
    return varied_schedule(
        "shared_multicast", length, variants, variant_of_line, colours=colours, slowest_variants=slowest_variants
    )


def diagonal_stream(length: int) -> LineSchedule:
    """Return a pattern in which PE i of line i sends its words to PE r of the line in round r.

    The lines form a square of PEs, so the senders are on its diagonal.
    """
    target, line = np.divmod(np.arange(length * length), length)
    arrival = np.where(line == target, Arrival.COPY, Arrival.REPLACE)
    messages = np.stack([line, target, arrival], axis=1).astype(np.int32)[:, None]
    variants = np.arange(length * length, dtype=np.int32).reshape(length, length)
    ends = np.arange(length)
    farthest = np.where(2 * ends >= length - 1, 0, length - 1)
    return even_schedule(
        "diagonal_stream",
        length,
        messages,
        variants,
        colours=COLOURS,
        slowest_variants=tuple(variants[ends, farthest].tolist()),
        changes_with_round=True,
    )


def terms(pes: int, words: int, distance: int) -> Terms:
    """Return the cost terms of a flooding multicast, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024.

    Args:
        pes: Number of receiving PEs.
        words: Number of words.
        distance: Number of hops to the farthest receiver.
    """
    return Terms(contention_words=words, energy_hops=words * pes, links=pes, distance_hops=distance, depth=1)


def _shared_sample(sizes: Sizes) -> Case:
    """Return a test case with a random multicast from several PEs of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    count = 1 + sizes.number_below(sizes.length)
    first, stride = sizes.number_below(sizes.length - count + 1), 1 + sizes.number_below(count)
    schedule = shared_multicast(sizes.length, stride, first, count, stride)
    return line_case("shared_multicast", schedule, sizes, f"every {stride} of {count} from {first}")


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a multicast from a random PE of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    root = sizes.number_below(sizes.length)
    return line_case("multicast", multicast(sizes.length, 1, root), sizes, f"from {root}")


PATTERN = Pattern(
    name="multicast",
    samples={
        "multicast": _sample,
        "shared_multicast": _shared_sample,
        "diagonal_multicast": lambda sizes: line_case("diagonal_multicast", diagonal_multicast(sizes.length), sizes),
        "diagonal_stream": lambda sizes: line_case("diagonal_stream", diagonal_stream(sizes.length), sizes),
    },
    collectives={
        "multicast": LineCollective(make=lambda length, _: multicast(length, 1, 0), form=("broadcast", "flooding")),
    },
)
