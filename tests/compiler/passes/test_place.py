"""Test placement: a rectangle per stage, without overlaps, next to that of the preceding stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from compiler_states import CHOICE, before, begin
from tiny_model import tiny_spec

from wse.compiler.check import check
from wse.compiler.passes.place import place
from wse.compiler.state import State
from wse_mappings.mesh.placement import Rect

pytestmark = pytest.mark.smoke


def placed(state: State) -> State:
    result = place(before("place", state))
    check(result, pass_name="place")
    return result


def pes(rect: Rect) -> set[tuple[int, int]]:
    return {
        (row, col) for row in range(rect.row, rect.row + rect.rows) for col in range(rect.col, rect.col + rect.cols)
    }


def test_regions_keep_apart_and_those_of_neighbouring_layers_touch() -> None:
    choice = replace(CHOICE, bands=2, per_band=3)
    state = placed(begin((6, 14), tiny_spec(layers=6), choice=choice, mapping="pipeline"))
    rects = [stage.rect for stage in state.stages]
    assert len(rects) == 6
    assert all(not pes(a) & pes(b) for a, b in combinations(rects, 2))
    for a, b in pairwise(rects):
        near = {(row + down, col + right) for row, col in pes(a) for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0))}
        assert near & pes(b), (a, b)
