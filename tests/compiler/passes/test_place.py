"""Test placement: a rectangle per stage, without overlaps, next to that of the preceding stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from compiler_states import CHOICE, before, begin
from plain_router import MIXTURES, mixture_spec
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


def test_a_stage_has_the_shape_and_the_layers_of_its_plan() -> None:
    state = placed(begin((3, 5), tiny_spec(layers=4), wafers=2))
    for plan, stage in zip(state.plans, state.stages, strict=True):
        assert (stage.wafer, stage.rect.rows, stage.rect.cols) == (plan.wafer, plan.rows, plan.cols)
        assert (stage.first_layer, stage.last_layer) == (plan.first_layer, plan.last_layer)
        assert (stage.has_embedding, stage.has_head) == (plan.has_embedding, plan.has_head)


def test_regions_keep_apart_and_those_of_neighbouring_layers_touch() -> None:
    choice = replace(CHOICE, bands=2, per_band=3)
    state = placed(begin((6, 14), tiny_spec(layers=6), choice=choice, mapping="pipeline"))
    rects = [stage.rect for stage in state.stages]
    assert len(rects) == 6
    assert all(not pes(a) & pes(b) for a, b in combinations(rects, 2))
    for a, b in pairwise(rects):
        near = {(row + down, col + right) for row, col in pes(a) for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0))}
        assert near & pes(b), (a, b)


def test_wafers_start_anew() -> None:
    state = placed(begin((4, 4), tiny_spec(layers=2), wafers=2))
    assert [(stage.wafer, stage.rect) for stage in state.stages] == [(0, Rect(0, 0, 4, 4)), (1, Rect(0, 0, 4, 4))]


def test_experts_of_all_layers_stand_on_the_pes_of_the_others() -> None:
    state = placed(begin((3, 4), mixture_spec(MIXTURES["shared"]), mapping="expert", wafers=2))
    assert state.stages[-1].rect == state.stages[0].rect
    assert list(state.stages[-1].wafers) == [0, 1]
