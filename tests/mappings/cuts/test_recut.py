"""Pieces bring every element of a vector once from the row that has it to the row that needs it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.recut import cut_anew, whole_tiles
from wse_mappings.cuts.split import blocks

GROUPS = st.sampled_from([0, 0, 3, 4, 7])


@given(
    extent=st.integers(1, 40), rows=st.integers(1, 9), target_rows=st.integers(1, 9), group=GROUPS, target_group=GROUPS
)
def test_a_vector_cut_anew_lies_as_before(
    extent: int, rows: int, target_rows: int, group: int, target_group: int
) -> None:
    source, want = blocks(extent, rows, group), blocks(extent, target_rows, target_group)
    got, times = np.full_like(want, -1), np.zeros_like(want)
    for sender, receiver, first, place, count in cut_anew(extent, rows, target_rows, group, target_group).tolist():
        got[receiver, place : place + count] = source[sender, first : first + count]
        times[receiver, place : place + count] += 1
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(times, want >= 0)


@given(rows=st.integers(1, 9), target_rows=st.integers(1, 9))
def test_whole_tiles_go_to_every_row_once_and_to_their_own_where_there_are_as_many(rows: int, target_rows: int) -> None:
    pieces = whole_tiles(5, rows, target_rows)
    assert pieces[:, 1].tolist() == list(range(target_rows))
    assert (np.diff(pieces[:, 0]) >= 0).all()
    assert 0 <= pieces[:, 0].min() <= pieces[:, 0].max() < rows
    assert rows != target_rows or (pieces[:, 0] == pieces[:, 1]).all()
