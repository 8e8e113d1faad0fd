"""Slices on lanes: none overlap, and no more lanes than slices at once."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from wse.tracing.export.perfetto import Lanes

SLICES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=40).map(sorted)


@given(SLICES)
def test_no_lane_has_two_slices_at_once_and_there_are_as_few_lanes_as_can_be(slices: list[tuple[int, int]]) -> None:
    lanes, placed = Lanes(), {}
    for start, cycles in slices:
        placed.setdefault(lanes.place(start, start + cycles), []).append((start, start + cycles))
    for lane in placed.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(lane))
    at_once = [sum(s <= cycle < s + n for s, n in slices) for cycle in range(40)]
    if all(cycles for _, cycles in slices):
        assert len(placed) == max(at_once)
