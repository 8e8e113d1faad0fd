"""Flooding along a line: all PEs get the words of the root, and each link carries them once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast

LENGTHS = st.integers(1, 40)


@given(length=LENGTHS, lines=st.integers(1, 5), where=st.data())
def test_multicast_gives_every_pe_the_words_of_the_root(length: int, lines: int, where: st.DataObject) -> None:
    root = where.draw(st.integers(0, length - 1))
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
        held: list[object] = [None] * length
        for turn in range(length):
            held = replay(schedule, [(turn, pe) for pe in range(length)], held, line, turn)
            assert sum(hops(schedule, line, turn)) == abs(line - turn)
        assert held == [(turn, line) for turn in range(length)]
