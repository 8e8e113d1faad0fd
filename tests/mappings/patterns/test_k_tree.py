"""Tests of trees of any number of levels: they sum every input once, stay in their segment, and have few relays."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.cuts.split import balanced_segments
from wse_mappings.patterns.k_tree import group_count, k_tree, relays_of, root_of
from wse_mappings.schedule import Arrival, LineSchedule

LENGTHS = st.integers(1, 64)
Segmented = tuple[int, tuple[tuple[int, int], ...]]
Levelled = tuple[int, tuple[int, ...]]


@st.composite
def segmented(draw: st.DrawFn) -> Segmented:
    """Return a line length, and segments that divide the line."""
    length = draw(LENGTHS)
    return length, tuple(balanced_segments(length, draw(st.integers(1, length))))


@st.composite
def levelled(draw: st.DrawFn) -> Levelled:
    """Return a line length, and group counts of up to three levels, each at most the count before."""
    length = draw(LENGTHS)
    groups: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        groups.append(draw(st.integers(1, groups[-1] if groups else length)))
    return length, tuple(groups)


def contributions(schedule: LineSchedule, length: int) -> np.ndarray:
    """Return how often each input is included in each PE's result, ``[PE, input]``."""
    return np.array(replay(schedule, list(np.eye(length, dtype=np.int64))))


def stages(schedule: LineSchedule) -> int:
    """Return the maximum number of messages that depend on each other, one after another."""
    done: dict[int, int] = {}
    for start, end, arrival in schedule.messages.tolist():
        if arrival != Arrival.MULTICAST:
            done[end] = max(done.get(end, 0), done.get(start, 0) + 1)
    return max(done.values(), default=0)


@given(
    line=segmented(), groups=st.none() | st.lists(st.integers(1, 64), max_size=3).map(tuple), broadcast=st.booleans()
)
def test_inputs_of_a_segment_are_summed_once(
    line: Segmented, groups: tuple[int, ...] | None, *, broadcast: bool
) -> None:
    """The sum is on the root, or on all PEs. A segment has at most as many groups as it has PEs."""
    length, segments = line
    tree = k_tree(length, 1, Arrival.ADD, broadcast=broadcast, segments=segments, groups=groups)
    counts = contributions(tree, length)
    for start, count in segments:
        want = np.zeros(length, np.int64)
        want[start : start + count] = 1
        assert 0 <= root_of(count, groups) < count
        segment_counts = counts[start : start + count] if broadcast else counts[start + root_of(count, groups)]
        assert (segment_counts == want).all()


@given(length=LENGTHS, values=st.data())
def test_all_pes_get_the_maximum_and_the_lowest_index_of_ties(length: int, values: st.DataObject) -> None:
    numbers = values.draw(st.lists(st.integers(-3, 3), min_size=length, max_size=length))
    pairs = [(value, index) for index, value in enumerate(numbers)]
    best = max(pairs, key=lambda pair: (pair[0], -pair[1]))
    assert set(replay(k_tree(length, 1, Arrival.ARGMAX, broadcast=True), list(pairs))) == {best}
    assert set(replay(k_tree(length, 1, Arrival.MAX, broadcast=True), list(numbers))) == {best[0]}


@given(length=st.integers(1, 1000))
def test_default_number_of_groups_has_the_fewest_relays(length: int) -> None:
    chosen = relays_of(length, (group_count(length),))
    assert chosen == relays_of(length) == min(relays_of(length, (groups,)) for groups in range(1, length + 1))
    assert chosen <= math.isqrt(length) + 1


@given(line=levelled())
def test_relays_are_the_messages_on_the_longest_path(line: Levelled) -> None:
    length, groups = line
    for chosen in (groups, None):
        assert stages(k_tree(length, 1, Arrival.ADD, broadcast=False, groups=chosen)) == relays_of(length, chosen)


@given(line=levelled())
def test_every_pe_except_the_root_sends_once_and_levels_cross_links_once(line: Levelled) -> None:
    length, groups = line
    tree = k_tree(length, 1, Arrival.ADD, broadcast=False, groups=groups)
    assert sorted(tree.messages[:, 0].tolist()) == [pe for pe in range(length) if pe != root_of(length, groups)]
    crossed = np.zeros((2, length), np.int64)
    for start, end in tree.messages[:, :2].tolist():
        crossed[int(end > start), min(start, end) : max(start, end)] += 1
    assert crossed.max(initial=0) <= len(groups) + 1, "each level crosses a link once in a direction"


@given(length=st.integers(1, 200))
def test_one_level_is_a_chain_from_both_ends_to_the_centre(length: int) -> None:
    tree = k_tree(length, 1, Arrival.ADD, broadcast=False, groups=())
    assert set(hops(tree)) <= {1}
    assert root_of(length, ()) == length // 2
    assert relays_of(length, ()) == length // 2


@pytest.mark.parametrize("groups", [15, 16, 32])
def test_two_levels_have_the_roots_and_hops_of_meshgemv(groups: int) -> None:
    """The global root is the middle PE of group floor(G / 2)."""
    group_size = 16
    length = groups * group_size
    tree = k_tree(length, 1, Arrival.ADD, broadcast=True, groups=(groups,))
    assert root_of(length, (groups,)) == (groups // 2) * group_size + group_size // 2
    assert tree.colours == 10
    second = [hop for hop in hops(tree) if hop > 1]
    assert second[: groups - 1] == [group_size] * (groups - 1)
    assert relays_of(length, (groups,)) == group_size // 2 + groups // 2


def test_equal_levels_have_the_published_number_of_relays() -> None:
    """The published number of relays of K equal levels over N PEs is K N^(1/K) / 2."""
    assert [relays_of(4096, groups) for groups in ((), (64,), (256, 16), (512, 64, 8))] == [2048, 64, 24, 16]


def test_levels_need_four_colours_each_and_the_broadcast_two() -> None:
    for groups, colours in (((), 6), ((8,), 10), ((16, 4), 14)):
        assert k_tree(64, 1, Arrival.ADD, broadcast=True, groups=groups).colours == colours
        assert k_tree(64, 1, Arrival.ADD, broadcast=False, groups=groups).colours == colours - 2


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((9,), "k_tree: 9 groups in level 1 of a line of 8 PEs: give 1 to 8"),
        ((4, 5), "k_tree: 5 groups in level 2 of a line of 8 PEs: give 1 to 4"),
        ((0,), "k_tree: 0 groups in level 1 of a line of 8 PEs: give 1 to 8"),
    ],
)
def test_more_groups_than_pes_are_refused(groups: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        k_tree(8, 1, Arrival.ADD, broadcast=True, groups=groups)
    if 0 in groups:
        with pytest.raises(ValueError, match="0 groups in level 1"):
            k_tree(8, 1, Arrival.ADD, broadcast=True, segments=((0, 3), (3, 5)), groups=groups)
