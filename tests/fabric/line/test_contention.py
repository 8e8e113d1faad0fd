"""Tests of contention between streams on a link: against a cycle-by-cycle simulation of the link."""

from collections import deque
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.line.contention.conflicts import Conflict, SharedEnd
from wse.backends.fabric.line.contention.delays import Contender, delay_cycles, delays_of
from wse.backends.fabric.line.event_times import Window, overlap_in_time
from wse.backends.fabric.line.pieces import Resource

HERE: SharedEnd = (0, 0, 0)
# First cycle and word count of a stream of one word per cycle.
FULL = st.tuples(st.integers(0, 300), st.integers(1, 400))


class StreamDelays(NamedTuple):
    """Computed delays of a stream and of its competitors.

    Attributes:
        cycles: Delay of the stream.
        streams: Number of streams on the link.
        others: Delay that the stream causes to each competitor, in cycles.
    """

    cycles: float
    streams: int
    others: list[float]


def delays_on_shared_link(
    mine: Window, *theirs: Window, resource: Resource = Resource.UP, shared_ends: tuple[SharedEnd, ...] = (HERE,)
) -> StreamDelays:
    conflict = Conflict(other_piece=0, resource=resource, low=0, high=0, shared_ends=shared_ends)
    delays = delays_of(mine, [Contender(conflict, window, feeds=False, owner=None) for window in theirs])
    return StreamDelays(*delay_cycles(delays.shared_spans), [effect.cycles for _, effect in delays.effects_on_others])


def link_cycle_by_cycle(streams: list[list[int]], *, in_order: bool) -> list[int]:
    """Simulate a link that forwards one of the waiting words per cycle.

    Args:
        streams: Arrival cycles of the words of each stream, ascending.
        in_order: True if the first stream with a waiting word has priority, False for alternating streams.

    Returns:
        For each stream, the cycle in which the link forwards its last word.
    """
    waiting = [deque(arrivals) for arrivals in streams]
    last_cycles, previous, cycle = [0] * len(streams), 0, 0
    while any(waiting):
        ready = [i for i, queue in enumerate(waiting) if queue and queue[0] <= cycle]
        if ready:
            chosen = ready[0] if in_order else next((i for i in ready if i != previous), ready[0])
            waiting[chosen].popleft()
            last_cycles[chosen], previous = cycle, chosen
        cycle += 1
    return last_cycles


def arrivals(first: int, words: int, pause: int = 0) -> list[int]:
    """Return the cycles in which the words of a stream arrive, one per cycle.

    Args:
        first: Cycle of the first word.
        words: Number of words.
        pause: The stream pauses for one cycle after this many words; 0 for no pauses.
    """
    return [first + i + (i // pause if pause else 0) for i in range(words)]


def window(cycles: list[int]) -> Window:
    """Return the time window of a stream whose words arrive in these cycles."""
    return Window(cycles[0], cycles[-1], len(cycles))


@given(mine=FULL, theirs=FULL)
@settings(deadline=None)
def test_full_streams_end_as_on_a_simulated_link(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    one, other = arrivals(*mine), arrivals(*theirs)
    delays = delays_on_shared_link(window(one), window(other))
    ends = link_cycle_by_cycle([one, other], in_order=False)
    assert abs(one[-1] + delays.cycles - ends[0]) <= 1
    delay_of_other = sum(delays.others)
    assert abs(other[-1] + delay_of_other - ends[1]) <= 1
    assert delays.streams == (1 if delays.cycles == 0 else 2)


@given(mine=FULL, theirs=FULL, pause=st.integers(4, 16))
@settings(deadline=None)
def test_streams_with_pauses_use_the_pauses_of_the_other(
    mine: tuple[int, int], theirs: tuple[int, int], pause: int
) -> None:
    one, other = arrivals(*mine, pause), arrivals(*theirs, pause)
    delays = delays_on_shared_link(window(one), window(other))
    # The model assumes mean rates. On the simulated link, a delayed stream still pauses after every `pause` words, so
    # the two ends may differ.
    earliest = link_cycle_by_cycle([one, other], in_order=False)[0]
    words = min(len(one), len(other))
    assert earliest - 2 <= one[-1] + delays.cycles + 1 <= one[-1] + words + 2


@given(mine=FULL, theirs=FULL)
@settings(deadline=None)
def test_first_thread_has_priority_out_of_a_pe(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    one, other = arrivals(*mine), arrivals(*theirs)
    delays = delays_on_shared_link(window(one), window(other), resource=Resource.OUT_OF_PE)
    end = link_cycle_by_cycle([other, one], in_order=True)[1]
    # The mean-rate model is not exact if the stream with priority starts later.
    if theirs[0] <= mine[0]:
        assert abs(one[-1] + delays.cycles - end) <= 1
    assert delays.others == []


def test_slow_stream_fits_into_the_pauses_of_another() -> None:
    slow, fast = Window(0, 199, 100), Window(10, 59, 25)
    assert delays_on_shared_link(slow, fast) == (0.0, 1, [])


def test_streams_conflict_only_where_they_pass_at_the_same_time() -> None:
    """If one stream has left a place before the other reaches it, there is no conflict."""
    mine, theirs = Window(0, 9, 10), Window(0, 9, 10)
    both_ends = ((0, 20, 0), (20, 0, 0))
    assert (
        delays_on_shared_link(mine, theirs, shared_ends=both_ends).cycles == 10
    )  # both pass the middle at the same time
    assert delays_on_shared_link(mine, theirs, shared_ends=both_ends[:1]).cycles == 0
    assert overlap_in_time(*mine[:2], *theirs[:2], both_ends)
    assert not overlap_in_time(*mine[:2], *theirs[:2], both_ends[:1])


@given(mine=FULL, theirs=FULL, shift=st.integers(-50, 50), farther=st.integers(-50, 50))
def test_streams_without_overlap_in_time_are_not_delayed(
    mine: tuple[int, int], theirs: tuple[int, int], shift: int, farther: int
) -> None:
    one, other = window(arrivals(*mine)), window(arrivals(*theirs))
    shared_ends = ((0, shift, 0), (max(farther, 0), shift + max(-farther, 0), 0))
    if not overlap_in_time(*one[:2], *other[:2], shared_ends):
        assert delays_on_shared_link(one, other, shared_ends=shared_ends) == (0.0, 1, [])


@given(words=st.integers(1, 200), streams=st.integers(2, 6), pause=st.sampled_from([0, 8]))
def test_delay_by_several_streams_ends_after_all_words(words: int, streams: int, pause: int) -> None:
    arrivals_by_stream = [arrivals(0, words, pause) for _ in range(streams)]
    delays = delays_on_shared_link(window(arrivals_by_stream[0]), *map(window, arrivals_by_stream[1:]))
    assert delays.streams == streams
    assert abs(arrivals_by_stream[0][-1] + delays.cycles + 1 - streams * words) <= 1
