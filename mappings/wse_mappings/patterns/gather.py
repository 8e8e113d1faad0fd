"""Gather along a line: each of some PEs has parts of the words, and one of the line's PEs gets all parts.

Parts travel on one colour: a router lets its own PE's parts pass first and then those that come from farther away, and
the root's those of one side before those of the other. They follow each other without a gap, none waits for a sum, and
the root is busy for the words and the way of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wse_mappings.patterns.pattern import LineCollective, Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def gather(length: int, lines: int, owners: Sequence[int], root: int, stretches: int = 1) -> LineSchedule:
    """Return the gather of part i of the words from PE ``owners[i]`` of each line to PE ``root``.

    In each of the line's equal ``stretches`` PEs are counted from its first; messages that all of them send at once
    stand together. Parts are cut as `LineSchedule.parts` says, and none is empty. The side with the nearer last owner
    comes first. A PE may have several parts of a word or two: all except the last wait in the queues of routers while
    others pass.
    """
    places = np.array(owners)
    before, behind = np.flatnonzero(places < root), np.flatnonzero(places > root)
    sides = [side[np.argsort(np.abs(places[side] - root), kind="stable")] for side in (before, behind)]
    sides.sort(key=lambda side: abs(int(places[side[-1]]) - root) if len(side) else 0)
    part = np.concatenate(sides).astype(np.int32)
    starts = range(0, length, length // stretches)
    messages = [(start + pe, start + root, Arrival.REPLACE) for pe in places[part].tolist() for start in starts]
    schedule = uniform_schedule("gather", length, lines, messages, colours=1, message_colours=[0] * len(messages))
    return replace(schedule, parts=len(owners), part=np.repeat(part, stretches))


def _sample(sizes: Sizes) -> Case:
    count = 1 + sizes.number_below(min(sizes.length, sizes.words))
    owners = np.sort(sizes.rng.permutation(sizes.length)[:count]).tolist()
    if 2 * count <= sizes.words <= 4 * count:
        owners *= 2  # a part in each half of the words
    root = sizes.number_below(sizes.length)
    return line_case("gather", gather(sizes.length, 1, owners, root), sizes, f"of {count} PEs into {root}")


def _sample_in_stretches(sizes: Sizes) -> Case:
    stretches = 1 + sizes.number_below(min(4, sizes.length // 2))
    length = sizes.length // stretches
    owners = sorted({sizes.number_below(length) for _ in range(min(length, sizes.words))})
    schedule = gather(stretches * length, 1, owners, length // 2, stretches)
    return line_case("gather in stretches", schedule, sizes, f"of {len(owners)} PEs in each of {stretches}")


PATTERN = Pattern(
    name="gather",
    samples={"gather": _sample, "gather in stretches": _sample_in_stretches},
    collectives={"gather": LineCollective(make=lambda length, _: gather(length, 1, range(length), 0))},
)
