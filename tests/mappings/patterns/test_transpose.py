"""The transpose brings every tile to its place, on disjoint hooks, with few tiles per bend."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.transpose import transpose, transpose_paths
from wse_mappings.schedule import Arrival

SIDES = st.integers(1, 40)


@given(side=SIDES)
def test_tile_i_j_ends_at_pe_j_i(side: int) -> None:
    schedule = transpose(side)
    held: dict[tuple[int, int], object] = dict.fromkeys(np.ndindex(side, side))
    for line, path in enumerate(transpose_paths(side)):
        after = replay(schedule, list(path), [held[pe] for pe in path], line)
        held |= dict(zip(path, after, strict=True))
    assert held == {(row, col): (col, row) for row, col in np.ndindex(side, side)}


@given(side=SIDES)
def test_hooks_are_lines_that_use_every_link_at_most_once(side: int) -> None:
    paths = transpose_paths(side)
    assert len(paths) == transpose(side).variants.shape[1]
    assert max(map(len, paths)) == transpose(side).length
    links = [frozenset(pair) for path in paths for pair in pairwise(path)]
    assert all(abs(a - c) + abs(b - d) == 1 for link in links for (a, b), (c, d) in [link])
    assert len(set(links)) == len(links)


@given(side=SIDES)
def test_every_pe_sends_its_tile_once_and_straight_across_its_bend(side: int) -> None:
    schedule, paths = transpose(side), transpose_paths(side)
    sent = []
    for line, path in enumerate(paths):
        for source, target, arrival in schedule.line_messages(line).tolist():
            sent.append(path[source])
            assert (arrival == Arrival.COPY) == (source == target)
    assert sorted(sent) == list(np.ndindex(side, side))


@given(side=st.integers(2, 50))
def test_no_bend_carries_more_tiles_than_the_share_that_two_hooks_leave(side: int) -> None:
    schedule = transpose(side)
    most = max(len(hops(schedule, line)) // 2 for line in range(2 * side))
    assert most <= math.ceil((1 - math.sqrt(0.5)) * side)


@given(side=SIDES)
def test_tiles_of_one_colour_come_to_every_pe_from_the_bend_outward(side: int) -> None:
    """A PE that has sent or received its own tile passes the others through."""
    schedule = transpose(side)
    for line in range(2 * side):
        messages, channel, _ = schedule.variant_messages(line)
        travelling = channel[messages[:, 2] != Arrival.COPY]
        for colour in (0, 1, 2, 3):
            far = np.array(hops(schedule, line))[travelling == colour]
            assert (np.diff(far) > 0).all()
        assert set(channel.tolist()) <= ({0, 1} if line < side else {2, 3})
    assert schedule.colours == 4
