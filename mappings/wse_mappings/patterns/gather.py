"""Gather along a line: each of some PEs has a part of the words, and the last of them gets all parts.

Parts travel on one colour: a router lets its own PE's part pass first and then those that come from farther away, so
that they follow each other without a gap, none waits for a sum, and the root is busy for the words and the way of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def gather(length: int, lines: int, owners: Sequence[int]) -> LineSchedule:
    """Part i of the words goes from PE ``owners[i]`` of each line, where it stands, to the last of them.

    Owners ascend; parts are cut as `LineSchedule.parts` says, and none is empty.
    """
    *others, root = owners
    nearest_first = list(enumerate(others))[::-1]
    messages = [(pe, root, Arrival.REPLACE) for _, pe in nearest_first]
    schedule = uniform_schedule("gather", length, lines, messages, colours=1, message_colours=[0] * len(messages))
    return replace(schedule, parts=len(owners), part=np.array([part for part, _ in nearest_first], np.int32))


def _sample(sizes: Sizes) -> Case:
    count = 1 + sizes.below(min(sizes.length, sizes.words))
    owners = np.sort(sizes.rng.permutation(sizes.length)[:count]).tolist()
    return line_case("gather", gather(sizes.length, 1, owners), sizes, f"of {count} PEs")


PATTERN = Pattern(name="gather", samples={"gather": _sample})
