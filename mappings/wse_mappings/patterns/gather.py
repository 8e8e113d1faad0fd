"""Gather along a line: some PEs have parts of the words, and one PE receives all parts.

All parts travel on one colour. A router first passes the parts of its own PE, and then the parts
from farther away. The root's router passes the parts of one side before the parts of the other
side. Parts follow each other without gaps because none waits for a sum. The root is therefore busy
for as many cycles as there are words, plus the latency of one path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wse_mappings.patterns.pattern import LineCollective, Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def gather(length: int, lines: int, owners: Sequence[int], root: int, segment_count: int = 1) -> LineSchedule:
    """Return the messages of a gather: PE ``owners[i]`` of each line sends part i to PE ``root``.

    First the PEs on one side of the root send, then the PEs on the other side. The side whose
    farthest owner is closer to the root sends first.

    If a PE owns several parts, each part must have at most two words, because all its parts except
    the last wait in router queues while parts of other PEs pass.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        owners: For each part of the words, the PE that owns it, as an index within a segment. The
            words are divided into nearly equal parts, none of which may be empty.
        root: PE that receives all parts, as an index within a segment.
        segment_count: Number of equal segments of a line, each with its own gather. Messages that
            all segments send concurrently are adjacent.
    """
    places = np.array(owners)
    sources_before, sources_after = np.flatnonzero(places < root), np.flatnonzero(places > root)
    sides = [side[np.argsort(np.abs(places[side] - root), kind="stable")] for side in (sources_before, sources_after)]
    sides.sort(key=lambda side: abs(int(places[side[-1]]) - root) if len(side) else 0)
    part = np.concatenate(sides).astype(np.int32)
    starts = range(0, length, length // segment_count)
    messages = [(start + pe, start + root, Arrival.REPLACE) for pe in places[part].tolist() for start in starts]
    schedule = uniform_schedule("gather", length, lines, messages, colours=1, message_colours=[0] * len(messages))
    return replace(schedule, parts=len(owners), part=np.repeat(part, segment_count))


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a gather from random owners into a random root.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    count = 1 + sizes.number_below(min(sizes.length, sizes.words))
    owners = np.sort(sizes.rng.permutation(sizes.length)[:count]).tolist()
    if 2 * count <= sizes.words <= 4 * count:
        owners *= 2  # every owner has a part in each half of the words
    root = sizes.number_below(sizes.length)
    return line_case("gather", gather(sizes.length, 1, owners, root), sizes, f"of {count} PEs into {root}")


def _sample_in_segments(sizes: Sizes) -> Case:
    """Return a test case with a gather in each of a random number of segments of a line.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    segment_count = 1 + sizes.number_below(min(4, sizes.length // 2))
    length = sizes.length // segment_count
    owners = sorted({sizes.number_below(length) for _ in range(min(length, sizes.words))})
    schedule = gather(segment_count * length, 1, owners, length // 2, segment_count)
    return line_case("gather in segments", schedule, sizes, f"of {len(owners)} PEs in each of {segment_count}")


PATTERN = Pattern(
    name="gather",
    samples={"gather": _sample, "gather in segments": _sample_in_segments},
    collectives={"gather": LineCollective(make=lambda length, _: gather(length, 1, range(length), 0))},
)
