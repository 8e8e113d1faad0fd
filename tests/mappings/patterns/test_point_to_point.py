"""Tests of multicasts, point-to-point messages and transposes."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast
from wse_mappings.patterns.streams import Stream, point_to_point
from wse_mappings.patterns.transpose import transpose, transpose_paths
from wse_mappings.schedule import Arrival

Line = tuple[int, tuple[Stream, ...]]


@st.composite
def line_with_streams(draw: st.DrawFn) -> Line:
    """Return a line length, and streams with different targets on the line."""
    length = draw(st.integers(2, 30))
    targets = draw(st.lists(st.integers(0, length - 1), unique=True, max_size=8))
    sources = [draw(st.integers(0, length - 1).filter(lambda pe, t=target: pe != t)) for target in targets]
    return length, tuple(zip(sources, targets, strict=True))


@given(line=line_with_streams())
def test_targets_get_the_words_of_their_sources_and_others_do_not_change(line: Line) -> None:
    length, streams = line
    schedule = point_to_point(length, 3, streams)
    after = replay(schedule, [("old", pe) for pe in range(length)], [("new", pe) for pe in range(length)], 2)
    source_of_target = {target: source for source, target in streams}
    assert after == [("old", source_of_target[pe]) if pe in source_of_target else ("new", pe) for pe in range(length)]
    assert hops(schedule) == [abs(source - target) for source, target in streams]


@given(line=line_with_streams())
def test_streams_that_share_a_pe_have_different_colours_and_the_fewest_are_used(line: Line) -> None:
    length, streams = line
    schedule = point_to_point(length, 1, streams)
    spans = [set(range(min(stream), max(stream) + 1)) for stream in streams]
    for (one, c), (other, d) in combinations(zip(spans, schedule.message_colours.tolist(), strict=True), 2):
        assert c != d or not one & other
    assert schedule.colours == max((sum(pe in span for span in spans) for pe in range(length)), default=0)


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        (((0, 5),), "point_to_point: a stream from PE 0 to PE 5; give two PEs from 0 to 4"),
        (((-1, 2),), "point_to_point: a stream from PE -1 to PE 2; give two PEs from 0 to 4"),
        (((3, 3),), "point_to_point: a stream from PE 3 to PE 3; give two PEs from 0 to 4"),
        (((0, 4), (1, 2), (3, 4)), "point_to_point: two streams end at PE 4; give each stream a target of its own"),
    ],
)
def test_invalid_streams_are_refused(streams: tuple[Stream, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        point_to_point(5, 1, streams)


LENGTHS = st.integers(1, 40)


@given(length=LENGTHS, lines=st.integers(1, 5), data=st.data())
def test_multicast_gives_every_pe_the_words_of_the_root(length: int, lines: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, length - 1))
    schedule = multicast(length, lines, root)
    for line in range(lines):
        words = list(range(length))
        assert replay(schedule, words, line=line) == [root] * length
        assert replay(schedule, words, [None] * length, line) == [root] * length
        assert sum(hops(schedule, line)) == length - 1


@given(length=LENGTHS)
def test_diagonal_multicast_gives_line_i_the_words_of_its_pe_i(length: int) -> None:
    schedule = diagonal_multicast(length)
    for line in range(length):
        assert replay(schedule, list(range(length)), [None] * length, line) == [line] * length


@given(length=st.integers(1, 15))
def test_diagonal_stream_sends_from_the_diagonal_to_the_pe_of_the_round(length: int) -> None:
    schedule = diagonal_stream(length)
    for line in range(length):
        received: list[object] = [None] * length
        for round_ in range(length):
            received = replay(schedule, [(round_, pe) for pe in range(length)], received, line, round_)
            assert sum(hops(schedule, line, round_)) == abs(line - round_)
        assert received == [(round_, line) for round_ in range(length)]


SIDES = st.integers(1, 24)


@given(side=SIDES)
def test_transpose_paths_use_every_link_at_most_once(side: int) -> None:
    paths = transpose_paths(side)
    assert len(paths) == transpose(side).variants.shape[1]
    assert max(map(len, paths)) == transpose(side).length
    links = [frozenset(pair) for path in paths for pair in pairwise(path)]
    assert all(abs(a - c) + abs(b - d) == 1 for link in links for (a, b), (c, d) in [link])
    assert len(set(links)) == len(links)


@given(side=SIDES)
def test_transpose_sends_the_tile_of_every_pe_once(side: int) -> None:
    schedule, paths = transpose(side), transpose_paths(side)
    sent = []
    for line, path in enumerate(paths):
        for source, target, arrival in schedule.line_messages(line).tolist():
            sent.append(path[source])
            assert (arrival == Arrival.COPY) == (source == target)
    assert sorted(sent) == list(np.ndindex(side, side))


@pytest.mark.parametrize("side", [2, 9, 40])
def test_transpose_bends_carry_a_limited_number_of_tiles(side: int) -> None:
    schedule = transpose(side)
    max_tiles = max(len(hops(schedule, line)) // 2 for line in range(2 * side))
    assert max_tiles <= math.ceil((1 - math.sqrt(0.5)) * side)


@given(side=SIDES)
def test_transpose_tiles_of_one_colour_are_sent_nearest_first(side: int) -> None:
    """A PE that has sent or received its own tile forwards the others."""
    schedule = transpose(side)
    for line in range(2 * side):
        messages, channel, _ = schedule.variant_messages(line)
        colours = channel[messages[:, 2] != Arrival.COPY]
        for colour in (0, 1, 2, 3):
            distances = np.array(hops(schedule, line))[colours == colour]
            assert (np.diff(distances) > 0).all()
        assert set(channel.tolist()) <= ({0, 1} if line < side else {2, 3})
    assert schedule.colours == 4
