"""Skips of rows include their dead PEs, and move no farther from row to row than necessary."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.mesh.path_segments import move_skips, skipped_columns


@given(st.sets(st.integers(0, 12), min_size=1, max_size=5), st.data())
def test_skips_move_the_shortest_way_in_all(places: set[int], data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.integers(0, 12), max_size=len(places)))
    start, after = sorted(places), move_skips(np.array(sorted(places)), np.array(sorted(wanted), np.int64)).tolist()
    assert wanted <= set(after)
    assert after == sorted(set(after))
    assert len(after) == len(start)
    every = [c for c in combinations(range(13), len(start)) if wanted <= set(c)]
    assert sum(abs(a - b) for a, b in zip(start, after, strict=True)) == min(
        sum(abs(a - b) for a, b in zip(start, chosen, strict=True)) for chosen in every
    )


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**32), st.integers(0, 4))
def test_each_row_skips_as_many_and_its_dead_among_them(rows: int, cols: int, seed: int, more: int) -> None:
    gone = np.random.default_rng(seed).random((rows, cols)) < 0.2
    count = min(cols, int(gone.sum(axis=1).max()) + more)
    found = skipped_columns(gone, count)
    assert found.shape == (rows, count)
    assert (np.diff(found, axis=1) > 0).all()
    for row in range(rows):
        assert set(np.flatnonzero(gone[row])) <= set(found[row].tolist())


def test_one_dead_pe_costs_one_straight_column() -> None:
    gone = np.zeros((5, 7), bool)
    gone[3, 2] = True
    assert (skipped_columns(gone, 1) == 2).all()
    assert (skipped_columns(gone, 2) == [2, 6]).all()
