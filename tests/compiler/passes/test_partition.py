"""Tests of partition and placement: layers are divided evenly and in order, on adjacent regions that fit the mesh."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from compiler_states import CHOICE, OPTIONS, before, begin
from session import wafer
from tiny_model import tiny_spec

from wse.compiler.demand import demand_of
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.compiler.passes.partition import partition
from wse.compiler.passes.place import place
from wse.compiler.state import StagePlan
from wse.compiler.strategies import strategy
from wse.errors import BadMesh
from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.layout import Layout

pytestmark = pytest.mark.smoke


def layers(plans: tuple[StagePlan, ...]) -> list[tuple[int, int]]:
    return [(plan.first_layer, plan.last_layer) for plan in plans]


def test_layers_are_in_order_over_wafers_bands_and_regions() -> None:
    choice = replace(CHOICE, bands=2, per_band=2)
    plans = partition(begin((8, 12), tiny_spec(layers=8), choice=choice, mapping="pipeline", wafers=2)).plans
    assert [(plan.wafer, plan.band) for plan in plans] == [(0, 0)] * 2 + [(0, 1)] * 2 + [(1, 0)] * 2 + [(1, 1)] * 2
    assert layers(plans) == [(i, i + 1) for i in range(8)]
    assert {plan.rows for plan in plans} == {4}
    assert all(first.cols + second.cols == 12 for first, second in zip(plans[::2], plans[1::2], strict=True))


@pytest.mark.parametrize(("tied", "head"), [(True, 0), (False, 1)])
def test_head_is_on_the_stage_of_its_matrix(tied: bool, head: int) -> None:  # noqa: FBT001
    plans = partition(begin((4, 4), tiny_spec(tied=tied), wafers=2)).plans
    assert [plan.has_embedding for plan in plans] == [True, False]
    assert [index for index, plan in enumerate(plans) if plan.has_head] == [head]


def test_large_embedding_counts_like_layers() -> None:
    """An embedding of 4,000 entries is as large as ten layers, so most layers are on the second wafer."""
    plans = partition(begin((8, 8), tiny_spec(layers=6, vocab=4000), wafers=2)).plans
    assert layers(plans) == [(0, 1), (1, 6)]


def test_mesh_gemm_gets_square_regions() -> None:
    choice = replace(CHOICE, prefill="mesh-gemm", prefill_chunk=9, per_band=2)
    plans = partition(begin((3, 8), choice=choice, mapping="pipeline")).plans
    assert [(plan.rows, plan.cols) for plan in plans] == [(3, 3), (3, 3)]


@pytest.mark.parametrize(
    ("choice", "region", "message"),
    [
        (replace(CHOICE, bands=5), None, "region of 0 rows: 5 of them one below the other do not fit the 4 rows"),
        (CHOICE, (5, 2), "region of 5 rows: 1 of them one below the other do not fit the 4 rows"),
        (CHOICE, (2, 7), "region of 7 columns: 1 of them side by side do not fit the 6 columns"),
    ],
)
def test_regions_that_do_not_fit_the_mesh_are_refused(choice: object, region: object, message: str) -> None:
    with pytest.raises(BadMesh, match=message):
        partition(begin((4, 6), choice=choice, region=region))  # type: ignore[arg-type]


def test_baseline_schedule_has_bands_of_equal_rows_and_no_smaller_layouts() -> None:
    choice = replace(CHOICE, bands=2)
    spec = tiny_spec(layers=3, vocab=400)
    baseline, optimized = (
        partition(begin((15, 6), spec, choice=choice, mapping="bands", schedule=schedule)).plans
        for schedule in (BASELINE, OPTIMIZED)
    )
    assert [plan.rows for plan in baseline] == [7, 7]
    assert len({plan.rows for plan in optimized}) == 2
    demand = demand_of(spec, wafer(16, 16, 1 << 14), replace(OPTIONS, schedule=BASELINE))
    auto = strategy("auto")
    assert not list(auto.smaller(demand, Layout("auto", 1, 1), 1))
    assert list(auto.smaller(replace(demand, as_released=False), Layout("auto", 1, 1), 1))


def pes(rect: Rect) -> set[tuple[int, int]]:
    return {
        (row, col) for row in range(rect.row, rect.row + rect.rows) for col in range(rect.col, rect.col + rect.cols)
    }


def test_regions_are_disjoint_and_those_of_consecutive_layers_adjacent() -> None:
    choice = replace(CHOICE, bands=2, per_band=3)
    state = place(before("place", begin((6, 14), tiny_spec(layers=6), choice=choice, mapping="pipeline")))
    rects = [stage.rect for stage in state.stages]
    assert len(rects) == 6
    assert all(not pes(a) & pes(b) for a, b in combinations(rects, 2))
    for a, b in pairwise(rects):
        neighbours = {
            (row + down, col + right) for row, col in pes(a) for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0))
        }
        assert neighbours & pes(b), (a, b)
