"""Experts of each column: each feature of each expert is stored once in its group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS, expert_groups, expert_places

SIZES = {"cols": st.integers(1, 17), "count": st.integers(1, 20), "size": st.integers(1, 23)}


@pytest.mark.parametrize("placement", [*EXPERT_PLACEMENTS, "3"])
@given(**SIZES)
def test_every_row_of_every_expert_is_on_one_column(placement: str, cols: int, count: int, size: int) -> None:
    rows = expert_groups(cols, count, size, placement).rows
    assert sorted(rows[rows >= 0].tolist()) == list(range(count * size))


@pytest.mark.parametrize("placement", [*EXPERT_PLACEMENTS, "3"])
@given(**SIZES)
def test_places_of_a_column_need_no_assignment(placement: str, cols: int, count: int, size: int) -> None:
    assert expert_places(cols, count, size, placement) == expert_groups(cols, count, size, placement).rows.shape[1]


@given(**SIZES)
def test_experts_of_their_own_share_columns_or_stand_on_several_never_both(cols: int, count: int, size: int) -> None:
    groups = expert_groups(cols, count, size, DEDICATED)
    held = (groups.experts >= 0).sum(axis=1)
    columns = [length for _, length in groups.segments]
    assert held.max() - held.min() <= 1
    assert max(columns) - min(columns) <= 1
    assert held.max() == 1 or max(columns) == 1
    assert sum(columns) == cols


@given(**SIZES)
def test_spread_experts_are_on_all_columns(cols: int, count: int, size: int) -> None:
    groups = expert_groups(cols, count, size, DISTRIBUTED)
    assert groups.experts_per_col == count
    assert (groups.experts == np.arange(count)).all()
