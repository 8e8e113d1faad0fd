"""Streams that share a link against a link that gives its words out in turn, cycle by cycle."""

from collections import deque
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.line.contention.conflicts import Conflict, SharedEnd
from wse.backends.fabric.line.contention.delays import Contender, delay_cycles, delays_of
from wse.backends.fabric.line.contention.windows import Window, overlap_in_time
from wse.backends.fabric.line.pieces import Resource

HERE: SharedEnd = (0, 0, 0)
FULL = st.tuples(st.integers(0, 300), st.integers(1, 400))  # first cycle and words of a stream of a word a cycle


class Outcome(NamedTuple):
    """Cycles that a stream waits, how many are on the link, and what each of the others waits for it."""

    cycles: float
    streams: int
    others: list[float]


def shared(
    mine: Window, *theirs: Window, resource: Resource = Resource.UP, shared_ends: tuple[SharedEnd, ...] = (HERE,)
) -> Outcome:
    conflict = Conflict(other_piece=0, resource=resource, low=0, high=0, shared_ends=shared_ends)
    delays = delays_of(mine, [Contender(conflict, window, feeds=False, owner=None) for window in theirs])
    return Outcome(*delay_cycles(delays.shared_spans), [effect.cycles for _, effect in delays.effects_on_others])


def taken_in_turn(streams: list[list[int]], *, in_order: bool) -> list[int]:
    """When each stream's last word has the link, which every cycle takes one of the words that are there."""
    waiting = [deque(arrivals) for arrivals in streams]
    last, turn, cycle = [0] * len(streams), 0, 0
    while any(waiting):
        here = [i for i, queue in enumerate(waiting) if queue and queue[0] <= cycle]
        if here:
            chosen = here[0] if in_order else next((i for i in here if i != turn), here[0])
            waiting[chosen].popleft()
            last[chosen], turn = cycle, chosen
        cycle += 1
    return last


def arrivals(first: int, words: int, pause: int = 0) -> list[int]:
    """Cycles of a stream that pauses one after so many words; 0 for never."""
    return [first + i + (i // pause if pause else 0) for i in range(words)]


def window(cycles: list[int]) -> Window:
    return Window(cycles[0], cycles[-1], len(cycles))


@given(mine=FULL, theirs=FULL)
@settings(deadline=None)
def test_two_full_streams_end_when_a_link_in_turns_says(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    one, other = arrivals(*mine), arrivals(*theirs)
    held = shared(window(one), window(other))
    ends = taken_in_turn([one, other], in_order=False)
    assert abs(one[-1] + held.cycles - ends[0]) <= 1
    theirs_held = sum(held.others)
    assert abs(other[-1] + theirs_held - ends[1]) <= 1
    assert held.streams == (1 if held.cycles == 0 else 2)


@given(mine=FULL, theirs=FULL, pause=st.integers(4, 16))
@settings(deadline=None)
def test_streams_that_pause_share_their_pauses(mine: tuple[int, int], theirs: tuple[int, int], pause: int) -> None:
    one, other = arrivals(*mine, pause), arrivals(*theirs, pause)
    held = shared(window(one), window(other))
    # Both are taken to go at a mean rate; one that is held up pauses after as many words as before, so it may be later.
    sooner = taken_in_turn([one, other], in_order=False)[0]
    words = min(len(one), len(other))
    assert sooner - 2 <= one[-1] + held.cycles + 1 <= one[-1] + words + 2


@given(mine=FULL, theirs=FULL)
@settings(deadline=None)
def test_out_of_a_pe_the_first_thread_goes_first(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    one, other = arrivals(*mine), arrivals(*theirs)
    held = shared(window(one), window(other), resource=Resource.OUT_OF_PE)
    end = taken_in_turn([other, one], in_order=True)[1]
    if (
        theirs[0] <= mine[0]
    ):  # what comes later and goes first makes way for what it finds, which a mean rate cannot say
        assert abs(one[-1] + held.cycles - end) <= 1
    assert held.others == []


def test_a_stream_slow_enough_fits_between_the_words_of_another() -> None:
    slow, fast = Window(0, 199, 100), Window(10, 59, 25)
    assert shared(slow, fast) == (0.0, 1, [])


def test_places_that_streams_pass_at_different_times_are_apart() -> None:
    """Two streams toward each other's sources never meet where one has gone before the other comes."""
    mine, theirs = Window(0, 9, 10), Window(0, 9, 10)
    far = ((0, 20, 0), (20, 0, 0))
    assert shared(mine, theirs, shared_ends=far).cycles == 10  # half-way both come at once
    assert shared(mine, theirs, shared_ends=far[:1]).cycles == 0
    assert overlap_in_time(*mine[:2], *theirs[:2], far)
    assert not overlap_in_time(*mine[:2], *theirs[:2], far[:1])


@given(mine=FULL, theirs=FULL, shift=st.integers(-50, 50), farther=st.integers(-50, 50))
def test_streams_apart_delay_neither(mine: tuple[int, int], theirs: tuple[int, int], shift: int, farther: int) -> None:
    one, other = window(arrivals(*mine)), window(arrivals(*theirs))
    shared_ends = ((0, shift, 0), (max(farther, 0), shift + max(-farther, 0), 0))
    if not overlap_in_time(*one[:2], *other[:2], shared_ends):
        assert shared(one, other, shared_ends=shared_ends) == (0.0, 1, [])


@given(words=st.integers(1, 200), streams=st.integers(2, 6), pause=st.sampled_from([0, 8]))
def test_the_last_of_several_streams_ends_with_all_words(words: int, streams: int, pause: int) -> None:
    each = [arrivals(0, words, pause) for _ in range(streams)]
    held = shared(window(each[0]), *map(window, each[1:]))
    assert held.streams == streams
    assert abs(each[0][-1] + held.cycles + 1 - streams * words) <= 1
