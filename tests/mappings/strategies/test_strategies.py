"""Tests of the bundled strategies: layouts, and partitions with every layer once, in order and nearly even."""

import pytest

from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.catalogue import bundled_strategies

BUNDLED = bundled_strategies()
NAMES = sorted(BUNDLED)


def demand(**changes: object) -> Demand:
    """Return a demand of six layers on two wafers with some values changed."""
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
@pytest.mark.parametrize(("wafers", "tables"), [(1, (7.0, None)), (2, (7.0, 9.0)), (3, (None, None))])
def test_layers_are_each_in_one_region_in_order(
    name: str, wafers: int, tables: tuple[float | None, float | None]
) -> None:
    request = demand(wafers=wafers, embedding_bytes=tables[0], head_bytes=tables[1])
    others = [other for key, other in BUNDLED.items() if key != name]
    for layout in BUNDLED[name].layouts(request, others):
        regions = BUNDLED[layout.mapping].partition(request, layout)
        layer_regions = [region for region in regions if not region.experts]
        ends = [0, *(region.last_layer for region in layer_regions)]
        assert [region.first_layer for region in layer_regions] == ends[:-1]
        assert ends[-1] == request.layers
        places = [(region.wafer, region.band) for region in layer_regions]
        assert places == sorted(places)
        assert max(region.band for region in regions) < layout.bands
        assert sum(region.bytes for region in regions) == sum(request.whole_layer_bytes) + sum(t or 0 for t in tables)


def test_experts_are_separate_only_on_several_wafers() -> None:
    expert, layout = BUNDLED["expert"], Layout("expert", 1, 1)
    *layers, experts = expert.partition(demand(), layout)
    assert experts.experts
    assert (experts.first_layer, experts.last_layer, experts.wafers, experts.bytes) == (6, 6, 2, 90.0)
    assert [region.bytes for region in layers] == [39.0, 43.0]
    assert not any(region.experts for region in expert.partition(demand(wafers=1), layout))


def test_tensor_strategy_has_one_region_over_all_wafers() -> None:
    (region,) = BUNDLED["tensor"].partition(demand(wafers=5), Layout("tensor", 1, 1))
    assert (region.wafer, region.wafers, region.first_layer, region.last_layer) == (0, 5, 0, 6)


def test_auto_omits_equivalent_mappings() -> None:
    auto = BUNDLED["auto"]
    others = [other for name, other in BUNDLED.items() if name != "auto"]

    def mappings(request: Demand) -> set[str]:
        return {layout.mapping for layout in auto.layouts(request, others)}

    assert mappings(demand(wafers=1)) == {"bands"}
    assert mappings(demand(experts=0)) == {"bands", "tensor"}
    assert mappings(demand()) == {"bands", "expert", "tensor"}
    assert mappings(demand(region=(8, 8))) == {"expert", "pipeline", "region", "tensor"}


def test_auto_tries_every_cut_once() -> None:
    request = demand()
    layouts = list(BUNDLED["auto"].layouts(request, [other for name, other in BUNDLED.items() if name != "auto"]))
    assert len(set(layouts)) == len(layouts)
    separate_mappings = {"tensor", "expert"}
    cuts = [layout._replace(mapping="") for layout in layouts if layout.mapping not in separate_mappings]
    assert len(set(cuts)) == len(cuts), "equivalent layouts of two strategies are both tried"
    pipeline_cuts = {layout._replace(mapping="") for layout in BUNDLED["pipeline"].layouts(request, ())}
    assert pipeline_cuts <= set(cuts)
    assert any(layout.is_transposed for layout in layouts)


@pytest.mark.parametrize("steps", [1, 4])
def test_smaller_layouts_fit_the_mesh_and_the_bytes(steps: int) -> None:
    request = demand(mesh_rows=100, mesh_cols=75, pe_bytes=0.5)
    full_layout = Layout("bands", 2, 3, is_transposed=True)
    smaller = list(BUNDLED["auto"].smaller(request, full_layout, steps))
    assert len(set(smaller)) == len(smaller) > 0
    min_pes = (sum(request.whole_layer_bytes) + 7.0 + 9.0) / request.wafers / request.pe_bytes
    for layout in smaller:
        (rows, cols), (mesh_rows, mesh_cols) = layout.region(request), layout.mesh or (0, 0)
        assert (mesh_rows, mesh_cols) == (2 * rows, 3 * cols)
        assert 6 * rows * cols >= min_pes
        assert mesh_rows <= 75
        assert mesh_cols <= 100
        assert mesh_rows > 100 or mesh_cols > 75, "the layout also fits the mesh without transposition"


def test_regions_of_a_given_shape_fit_the_mesh() -> None:
    layouts = list(BUNDLED["pipeline"].layouts(demand(region=(12, 8), wafers=1), ()))
    assert layouts == [Layout("pipeline", 1, 2), Layout("pipeline", 2, 2), Layout("pipeline", 2, 2)]
    assert layouts[0].region(demand(region=(12, 8))) == (12, 8)
    assert Layout("auto", 2, 4, is_transposed=True).region(demand()) == (8, 6)


@pytest.mark.parametrize("block_parts", [2, 8])
def test_parts_of_layers_are_in_order_over_regions(block_parts: int) -> None:
    """There are two wafers with two bands each.

    A region continues the layer of the previous one. The first region also has the embedding, the last one the head.
    """
    request = demand(attention_bytes=(2.0,) * 6)
    regions = BUNDLED["bands"].partition(request, Layout("bands", 2, 1, block_parts=block_parts))
    assert [(region.wafer, region.band) for region in regions] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    ends = [(0, 0), *(region.layers.next for region in regions)]
    assert [(region.first_layer, region.first_part) for region in regions] == ends[:-1]
    assert ends[-1] == (6, 0)
    sizes = [region.bytes for region in regions]
    assert sum(sizes) == pytest.approx(sum(request.whole_layer_bytes) + 7 + 9)
    whole_layer_regions = BUNDLED["bands"].partition(request, Layout("bands", 2, 1))
    assert max(sizes) <= max(region.bytes for region in whole_layer_regions)
    assert any(region.first_part for region in regions)


def test_layers_stay_whole_if_that_is_equally_even() -> None:
    request = demand(
        layer_bytes=(5.0,) * 6,
        expert_bytes=(0.0,) * 6,
        attention_bytes=(1.0,) * 6,
        embedding_bytes=None,
        head_bytes=None,
    )
    regions = BUNDLED["bands"].partition(request, Layout("bands", 1, 1, block_parts=4))
    assert [tuple(region.layers) for region in regions] == [(0, 3, 0, 9), (3, 6, 0, 9)]
