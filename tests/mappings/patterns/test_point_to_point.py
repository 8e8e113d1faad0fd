"""Point-to-point streams: targets get their sources' words, on colours that do not conflict."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.point_to_point import Stream, point_to_point

Line = tuple[int, tuple[Stream, ...]]


@st.composite
def several(draw: st.DrawFn) -> Line:
    """A line length and streams on it."""
    length = draw(st.integers(2, 30))
    targets = draw(st.lists(st.integers(0, length - 1), unique=True, max_size=8))
    sources = [draw(st.integers(0, length - 1).filter(lambda pe, t=target: pe != t)) for target in targets]
    return length, tuple(zip(sources, targets, strict=True))


@given(line=several())
def test_targets_hold_what_sources_held_and_nobody_else_changes(line: Line) -> None:
    length, streams = line
    schedule = point_to_point(length, 3, streams)
    after = replay(schedule, [("old", pe) for pe in range(length)], [("new", pe) for pe in range(length)], 2)
    came_from = {target: source for source, target in streams}
    assert after == [("old", came_from[pe]) if pe in came_from else ("new", pe) for pe in range(length)]
    assert hops(schedule) == [abs(source - target) for source, target in streams]


@given(line=several())
def test_streams_that_share_a_pe_have_different_colours_and_no_more_are_used(line: Line) -> None:
    length, streams = line
    schedule = point_to_point(length, 1, streams)
    spans = [set(range(min(stream), max(stream) + 1)) for stream in streams]
    for (one, c), (other, d) in combinations(zip(spans, schedule.message_colours.tolist(), strict=True), 2):
        assert c != d or not one & other
    assert schedule.colours == max((sum(pe in span for span in spans) for pe in range(length)), default=0)


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        (((0, 5),), "point_to_point: a stream from PE 0 to PE 5; give two PEs from 0 to 4"),
        (((-1, 2),), "point_to_point: a stream from PE -1 to PE 2; give two PEs from 0 to 4"),
        (((3, 3),), "point_to_point: a stream from PE 3 to PE 3; give two PEs from 0 to 4"),
        (((0, 4), (1, 2), (3, 4)), "point_to_point: two streams end at PE 4; give each stream a target of its own"),
    ],
)
def test_streams_that_cannot_be_are_refused(streams: tuple[Stream, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        point_to_point(5, 1, streams)
