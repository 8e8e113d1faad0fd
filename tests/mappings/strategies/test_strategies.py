"""Bundled strategies: layouts, and partitions with every layer once, in order and nearly even."""

import pytest

from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.catalogue import bundled_strategies

BUNDLED = bundled_strategies()
NAMES = sorted(BUNDLED)


def demand(**changes: object) -> Demand:
    values: dict[str, object] = {
        "layer_bytes": (10.0, 12.0, 10.0, 12.0, 10.0, 12.0),
        "expert_bytes": (30.0, 0.0, 30.0, 0.0, 30.0, 0.0),
        "embedding_bytes": 7.0,
        "head_bytes": 9.0,
        "experts": 8,
        "wafers": 2,
        "mesh_rows": 24,
        "mesh_cols": 16,
    }
    return Demand(**values | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wafers", [1, 2, 3])
@pytest.mark.parametrize("tables", [(7.0, 9.0), (7.0, None), (None, None)])
def test_layers_are_in_one_region_in_order(name: str, wafers: int, tables: tuple[float | None, float | None]) -> None:
    asked = demand(wafers=wafers, embedding_bytes=tables[0], head_bytes=tables[1])
    others = [other for key, other in BUNDLED.items() if key != name]
    for layout in BUNDLED[name].layouts(asked, others):
        shares = BUNDLED[layout.mapping].partition(asked, layout)
        regions = [share for share in shares if not share.experts]
        ends = [0, *(share.last_layer for share in regions)]
        assert [share.first_layer for share in regions] == ends[:-1]
        assert ends[-1] == asked.layers
        places = [(share.wafer, share.band) for share in regions]
        assert places == sorted(places)
        assert max(share.band for share in shares) < layout.bands
        assert sum(share.bytes for share in shares) == sum(asked.whole_layer_bytes) + sum(t or 0 for t in tables)


def test_experts_are_apart_on_several_wafers_alone() -> None:
    expert, layout = BUNDLED["expert"], Layout("expert", 1, 1)
    *layers, experts = expert.partition(demand(), layout)
    assert experts.experts
    assert (experts.first_layer, experts.last_layer, experts.wafers, experts.bytes) == (6, 6, 2, 90.0)
    assert [share.bytes for share in layers] == [39.0, 43.0]
    assert not any(share.experts for share in expert.partition(demand(wafers=1), layout))


def test_one_region_spans_all_wafers_with_tensor() -> None:
    (share,) = BUNDLED["tensor"].partition(demand(wafers=5), Layout("tensor", 1, 1))
    assert (share.wafer, share.wafers, share.first_layer, share.last_layer) == (0, 5, 0, 6)


def test_a_search_leaves_out_what_would_be_the_same() -> None:
    auto = BUNDLED["auto"]
    others = [other for name, other in BUNDLED.items() if name != "auto"]

    def mappings(asked: Demand) -> set[str]:
        return {layout.mapping for layout in auto.layouts(asked, others)}

    assert mappings(demand(wafers=1)) == {"bands"}
    assert mappings(demand(experts=0)) == {"bands", "tensor"}
    assert mappings(demand()) == {"bands", "expert", "tensor"}
    assert mappings(demand(region=(8, 8))) == {"expert", "pipeline", "region", "tensor"}


def test_a_search_tries_every_cut_once() -> None:
    asked = demand()
    layouts = list(BUNDLED["auto"].layouts(asked, [other for name, other in BUNDLED.items() if name != "auto"]))
    assert len(set(layouts)) == len(layouts)
    apart = {"tensor", "expert"}
    cuts = [layout._replace(mapping="") for layout in layouts if layout.mapping not in apart]
    assert len(set(cuts)) == len(cuts), "two strategies' layouts that do the same are both tried"
    of_pipeline = {layout._replace(mapping="") for layout in BUNDLED["pipeline"].layouts(asked, ())}
    assert of_pipeline <= set(cuts)
    assert any(layout.is_transposed for layout in layouts)


@pytest.mark.parametrize("steps", [1, 4])
def test_smaller_layouts_are_on_the_mesh_and_have_room_for_the_bytes(steps: int) -> None:
    asked = demand(mesh_rows=100, mesh_cols=75, pe_bytes=0.5)
    whole = Layout("bands", 2, 3, is_transposed=True)
    smaller = list(BUNDLED["auto"].smaller(asked, whole, steps))
    assert len(set(smaller)) == len(smaller) > 0
    least_pes = (sum(asked.whole_layer_bytes) + 7.0 + 9.0) / asked.wafers / asked.pe_bytes
    for layout in smaller:
        (rows, cols), (mesh_rows, mesh_cols) = layout.region(asked), layout.mesh or (0, 0)
        assert (mesh_rows, mesh_cols) == (2 * rows, 3 * cols)
        assert 6 * rows * cols >= least_pes
        assert mesh_rows <= 75
        assert mesh_cols <= 100
        assert mesh_rows > 100 or mesh_cols > 75, "as the mesh lies it has room for it too"


def test_regions_of_a_stated_shape_fill_the_mesh_at_most() -> None:
    layouts = list(BUNDLED["pipeline"].layouts(demand(region=(12, 8), wafers=1), ()))
    assert layouts == [Layout("pipeline", 1, 2), Layout("pipeline", 2, 2), Layout("pipeline", 2, 2)]
    assert layouts[0].region(demand(region=(12, 8))) == (12, 8)
    assert Layout("auto", 2, 4, is_transposed=True).region(demand()) == (8, 6)


@pytest.mark.parametrize("block_parts", [2, 8])
def test_parts_of_layers_follow_each_other_through_regions(block_parts: int) -> None:
    """There are two wafers with two bands each.

    A region continues the layer of the one before; tables are at both ends.
    """
    asked = demand(attention_bytes=(2.0,) * 6)
    shares = BUNDLED["bands"].partition(asked, Layout("bands", 2, 1, block_parts=block_parts))
    assert [(share.wafer, share.band) for share in shares] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    ends = [(0, 0), *(share.layers.next for share in shares)]
    assert [(share.first_layer, share.first_part) for share in shares] == ends[:-1]
    assert ends[-1] == (6, 0)
    sizes = [share.bytes for share in shares]
    assert sum(sizes) == pytest.approx(sum(asked.whole_layer_bytes) + 7 + 9)
    whole = BUNDLED["bands"].partition(asked, Layout("bands", 2, 1))
    assert max(sizes) <= max(share.bytes for share in whole)
    assert any(share.first_part for share in shares)


def test_layers_stay_whole_where_that_is_as_even() -> None:
    asked = demand(
        layer_bytes=(5.0,) * 6,
        expert_bytes=(0.0,) * 6,
        attention_bytes=(1.0,) * 6,
        embedding_bytes=None,
        head_bytes=None,
    )
    shares = BUNDLED["bands"].partition(asked, Layout("bands", 1, 1, block_parts=4))
    assert [tuple(share.layers) for share in shares] == [(0, 3, 0, 9), (3, 6, 0, 9)]
