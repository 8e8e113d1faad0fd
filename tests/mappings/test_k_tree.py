"""The two-level tree: every input is summed once, nothing leaves its segment, and few software stages are needed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.k_tree import group_count, k_tree, root_of
from wse_mappings.schedule import Arrival, LineSchedule
from wse_mappings.split import balanced_segments

LENGTHS = st.integers(1, 64)


@st.composite
def segmented(draw: st.DrawFn) -> tuple[int, tuple[tuple[int, int], ...]]:
    """A line length and the segments that it is cut into."""
    length = draw(LENGTHS)
    return length, tuple(balanced_segments(length, draw(st.integers(1, length))))


def contributions(schedule: LineSchedule, length: int) -> np.ndarray:
    """``[PE, input]``: how often each input is in what a PE holds in the end."""
    return np.array(replay(schedule, list(np.eye(length, dtype=np.int64))))


def stages(schedule: LineSchedule) -> int:
    """Messages that follow from each other, at most: software takes part once in each."""
    done: dict[int, int] = {}
    for start, end, arrival in schedule.messages.tolist():
        if arrival != Arrival.MULTICAST:
            done[end] = max(done.get(end, 0), done.get(start, 0) + 1)
    return max(done.values(), default=0)


def stages_with(length: int, groups: int) -> int:
    """Stages of two levels of two-way chains: inside the largest group, then among the groups' roots."""
    return -(-length // groups) // 2 + groups // 2


@given(line=segmented())
def test_reduce_brings_every_input_of_a_segment_to_its_root_once(line: tuple[int, tuple[tuple[int, int], ...]]) -> None:
    length, segments = line
    held = contributions(k_tree(length, 1, Arrival.ADD, broadcast=False, segments=segments), length)
    for start, count in segments:
        want = np.zeros(length, np.int64)
        want[start : start + count] = 1
        np.testing.assert_array_equal(held[start + root_of(count)], want)


@given(line=segmented())
def test_all_reduce_brings_every_input_of_a_segment_to_all_its_pes_once(
    line: tuple[int, tuple[tuple[int, int], ...]],
) -> None:
    length, segments = line
    held = contributions(k_tree(length, 1, Arrival.ADD, broadcast=True, segments=segments), length)
    for start, count in segments:
        want = np.zeros((count, length), np.int64)
        want[:, start : start + count] = 1
        np.testing.assert_array_equal(held[start : start + count], want)


@given(line=segmented(), broadcast=st.booleans())
def test_messages_stay_in_their_segment(line: tuple[int, tuple[tuple[int, int], ...]], *, broadcast: bool) -> None:
    length, segments = line
    segment_of = {pe: i for i, (start, count) in enumerate(segments) for pe in range(start, start + count)}
    tree = k_tree(length, 1, Arrival.ADD, broadcast=broadcast, segments=segments)
    assert all(segment_of[start] == segment_of[end] for start, end, _ in tree.messages.tolist())


@given(length=LENGTHS)
def test_without_segments_the_whole_line_is_one(length: int) -> None:
    whole = k_tree(length, 3, Arrival.ADD, broadcast=True, segments=((0, length),))
    plain = k_tree(length, 3, Arrival.ADD, broadcast=True)
    np.testing.assert_array_equal(whole.messages, plain.messages)
    assert plain.variants.tolist() == [[0, 0, 0]]


@given(length=LENGTHS, values=st.data())
def test_every_pe_agrees_on_the_largest_and_on_ties_on_the_lowest_index(length: int, values: st.DataObject) -> None:
    drawn = values.draw(st.lists(st.integers(-3, 3), min_size=length, max_size=length))
    pairs = [(value, index) for index, value in enumerate(drawn)]
    best = max(pairs, key=lambda pair: (pair[0], -pair[1]))
    assert set(replay(k_tree(length, 1, Arrival.LARGER_PAIR, broadcast=True), list(pairs))) == {best}
    assert set(replay(k_tree(length, 1, Arrival.LARGER, broadcast=True), list(drawn))) == {best[0]}


@given(length=st.integers(1, 1000))
def test_the_number_of_groups_is_the_best_of_all(length: int) -> None:
    chosen = stages_with(length, group_count(length))
    assert chosen == min(stages_with(length, groups) for groups in range(1, length + 1))
    assert chosen <= math.isqrt(length) + 1


@given(length=st.integers(1, 300))
def test_software_stages_are_those_of_the_formula(length: int) -> None:
    assert stages(k_tree(length, 1, Arrival.ADD, broadcast=False)) == stages_with(length, group_count(length))


@given(length=LENGTHS)
def test_every_pe_but_the_root_sends_its_sum_once(length: int) -> None:
    senders = k_tree(length, 1, Arrival.ADD, broadcast=False).messages[:, 0].tolist()
    inner = {start + count // 2 for start, count in balanced_segments(length, group_count(length))}
    assert sorted(senders) == [pe for pe in range(length) if pe != root_of(length)]
    assert all(
        hop == 1
        for hop, pe in zip(hops(k_tree(length, 1, Arrival.ADD, broadcast=False)), senders, strict=True)
        if pe not in inner
    )
