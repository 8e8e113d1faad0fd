"""Logged wavelets, replayed: the words of every link, and what was on the way in each cycle."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.conftest import HEADER
from wse_traces import TraceError, TraceWriter, open_trace
from wse_traces.replay import wavelet_cycles, wavelet_link_words, wavelet_passes


def test_words_on_links_are_the_moves_over_them(sample):
    with open_trace(sample) as trace:
        assert wavelet_passes(trace) == [1]
        words = wavelet_link_words(trace, pass_index=1)
        assert words.shape == (2, 4, 6, 5)
        assert {tuple(place) for place in np.argwhere(words).tolist()} == {(1, 1, 1, 0), (1, 2, 1, 1)}
        assert words.sum() == 4
        assert wavelet_link_words(trace, pass_index=1, before_cycle=5).sum() == 3
        assert not wavelet_link_words(trace, pass_index=0).any()


def test_cycles_are_stepped_through_in_order(sample):
    with open_trace(sample) as trace:
        steps = [(cycle, rows["direction"].tolist()) for cycle, rows in wavelet_cycles(trace, pass_index=1)]
    assert steps == [(0, [1]), (1, [4, 2]), (4, [1]), (5, [4, 2])]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_a_replay_is_what_was_appended(tmp_path_factory, moves):
    path = tmp_path_factory.mktemp("replay") / "t.h5"
    columns = np.array(moves, int).reshape(-1, 4).T
    rows = dict(zip(("cycle", "row", "col", "direction"), columns, strict=True))
    with TraceWriter(path, HEADER) as writer:
        writer.append("wavelet", {**rows, **dict.fromkeys(("pass", "step", "wafer", "colour"), 0 * columns[0])})
    with open_trace(path) as trace:
        again = [
            (cycle, *move)
            for cycle, now in wavelet_cycles(trace, pass_index=0)
            for move in zip(*(now[name].tolist() for name in ("row", "col", "direction")), strict=True)
        ]
        assert sorted(again) == sorted(moves)
        assert [cycle for cycle, *_ in again] == sorted(cycle for cycle, *_ in moves)
        for before in (None, 5):
            counted = sum(1 for cycle, *_, side in moves if side < 4 and (before is None or cycle < before))
            assert wavelet_link_words(trace, pass_index=0, before_cycle=before).sum() == counted


def test_a_place_outside_of_the_mesh_is_refused(sample, tmp_path):
    copy = tmp_path / "copy.h5"
    copy.write_bytes(sample.read_bytes())
    with h5py.File(copy, "r+") as file:
        file["wavelets/row"][0] = 6
    with open_trace(copy) as trace, pytest.raises(TraceError, match="wavelets: a place outside of the mesh; make"):
        wavelet_link_words(trace, pass_index=1)
