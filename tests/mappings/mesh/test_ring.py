"""Interleaved ring: every place is a PE, and ring neighbours are at most two PEs apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.mesh.ring import ring_pe, ring_place, skew
from wse_mappings.patterns.ring_shift import ring_align, ring_shift

LENGTHS = st.integers(1, 200)


@given(length=LENGTHS, turns=st.integers(-2, 2))
def test_the_ring_goes_out_over_even_pes_and_comes_back_over_odd_ones(length: int, turns: int) -> None:
    order = [ring_pe(place + turns * length, length) for place in range(length)]
    assert order == [*range(0, length, 2), *sorted(range(1, length, 2), reverse=True)]
    assert [ring_place(pe, length) for pe in order] == list(range(length))


@given(length=st.integers(1, 64))
def test_ring_shift_moves_every_word_one_place_on(length: int) -> None:
    shift = ring_shift(length, 1)
    places = [ring_place(pe, length) for pe in range(length)]
    after = replay(shift, places, [None] * length)
    assert after == [(place - 1) % length for place in places]
    assert max(hops(shift), default=0) <= 2


@pytest.mark.parametrize("length", range(1, 24))
def test_ring_align_moves_the_tiles_of_line_i_back_by_its_place(length: int) -> None:
    """Afterwards, the PE at place p of line i has the tile that was at place p + ring_place(i)."""
    align = ring_align(length)
    for line in range(length):
        words: list[object] = list(range(length))
        for turn in range(length // 2):
            words = replay(align, words, [None] * length, line, turn)
        want = [ring_pe(ring_place(pe, length) + ring_place(line, length), length) for pe in range(length)]
        assert words == want


@pytest.mark.parametrize("length", range(2, 24))
def test_ring_align_costs_every_line_the_same_hops_in_every_round(length: int) -> None:
    """A line that is done keeps sending words that are not stored.

    Lines differ in direction only.
    """
    align = ring_align(length)
    rounds = len(align.variants)
    assert rounds == length // 2
    for line in range(length):
        assert {tuple(sorted(hops(align, line, r))) for r in range(rounds)} == {tuple(sorted(hops(align)))}
    assert max(hops(align)) <= 2


@given(length=st.integers(1, 64), line=st.integers(0, 63))
def test_a_skewed_line_is_what_the_alignment_brings_to_it(length: int, line: int) -> None:
    line %= length
    places = [ring_place(int(k), length) for k in skew(line, length)]
    assert places == [(ring_place(line, length) + ring_place(pe, length)) % length for pe in range(length)]
