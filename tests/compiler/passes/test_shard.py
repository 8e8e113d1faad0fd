"""Test RegionCut: dimensions are divided without gaps or overlaps, and tensors are stored once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from compiler_states import CHOICE, before, begin
from plain_router import MIXTURES, mixture_spec
from tiny_model import tensors, tiny_spec

from wse.compiler.choice import Rewrites
from wse.compiler.passes.shard import shard
from wse.compiler.state import RegionCut
from wse.models.spec import ModelSpec


def sharded(mesh: tuple[int, int], spec: ModelSpec | None = None, **options: object) -> tuple[RegionCut, ...]:
    return shard(before("shard", begin(mesh, spec, **options))).cuts  # type: ignore[arg-type]


@pytest.mark.parametrize("mesh", [(1, 1), (3, 5), (7, 2), (11, 13)])
def test_an_extent_is_cut_into_equal_blocks_that_hold_each_index_once(mesh: tuple[int, int]) -> None:
    (cut,) = sharded(mesh)
    spec = tiny_spec()
    extents = {"hidden": (mesh[0], spec.hidden_size), "ffn": (mesh[1], spec.ffn_size), "vocab": (mesh[1], 67)}
    for name, (parts, size) in extents.items():
        blocks = getattr(cut, name)
        assert blocks.shape == (parts, -(-size // parts)), name
        assert sorted(blocks[blocks >= 0].tolist()) == list(range(size)), name


@pytest.mark.parametrize("cols", [1, 2, 5, 12])
def test_rows_of_the_projections_are_on_one_column_each(cols: int) -> None:
    (cut,) = sharded((2, cols))
    spec = tiny_spec()
    for rows, heads in ((cut.queries, spec.head_count), (cut.keys, spec.kv_head_count)):
        assert sorted(rows[rows >= 0].tolist()) == list(range(heads * spec.head_size))


def test_every_tensor_has_its_tiles_on_the_stage_of_its_layer() -> None:
    state = shard(before("shard", begin((3, 4), tiny_spec(layers=3, tied=False), wafers=2)))
    parts = Counter((part.tensor, tile.tile.stage) for tile in state.tiles for part in tile.tile.parts)
    places = {name: [stage for tensor, stage in parts if tensor == name] for name, _ in parts}
    assert {*tensors(state.spec)} <= {*places}
    assert all(len(stages) == 1 for name, stages in places.items() if name in tensors(state.spec))
    for stage, plan in enumerate(state.plans):
        for layer in range(plan.first_layer, plan.last_layer):
            assert places[f"layers.{layer}.q"] == [stage]


def test_real_elements_are_those_of_the_tensors_and_the_rest_is_padding() -> None:
    state = shard(before("shard", begin((3, 4))))
    matrices = {name: tensor.size for name, tensor in tensors(state.spec).items() if tensor.ndim == 2}
    held = [tile for tile in state.tiles if any(part.tensor in matrices for part in tile.tile.parts)]
    assert sum(tile.real_elements for tile in held) == sum(matrices.values())
    assert all(tile.real_elements <= tile.tile.elements * 3 * 4 for tile in held)


def test_layers_of_one_kind_have_tiles_of_one_shape() -> None:
    state = shard(before("shard", begin((3, 4), tiny_spec(layers=3))))
    shapes = []
    for layer in range(3):
        tiles = [tile.tile for tile in state.tiles if f"layers.{layer}." in tile.tile.name]
        shapes.append(sorted((tile.name.replace(f"layers.{layer}.", ""), tile.outer, tile.inner) for tile in tiles))
    assert shapes[0]
    assert shapes[0] == shapes[1] == shapes[2]


def test_experts_are_cut_on_the_stages_that_hold_them() -> None:
    cuts = sharded((3, 4), mixture_spec(MIXTURES["shared"]), mapping="expert", wafers=2)
    assert [cut.experts is not None for cut in cuts] == [False, False, True]
    assert all(cut.mixture is None for cut in cuts[:2])
    (cut,) = sharded((3, 4), mixture_spec(MIXTURES["shared"]))
    assert cut.mixture is not None


@pytest.mark.parametrize(("rewrites", "copies"), [((), 1), ((("router-copies", 2),), 2)])
def test_each_stretch_of_columns_has_all_outputs_of_a_router(rewrites: Rewrites, copies: int) -> None:
    spec = mixture_spec(MIXTURES["not normalised"])
    state = shard(before("shard", begin((3, 4), spec, choice=replace(CHOICE, rewrites=rewrites))))
    (part,) = next(tile.tile.parts for tile in state.tiles if tile.tile.name == "layers.1.router")
    stretches = part.inner.reshape(copies, -1)
    assert all(np.array_equal(stretch[stretch >= 0], np.arange(4)) for stretch in stretches)


def test_columns_are_counted_through_the_wafers_of_a_stage() -> None:
    (cut,) = sharded((3, 4), mapping="tensor", wafers=2, choice=CHOICE)
    assert (cut.cols, cut.cols_of_wafer, cut.span) == (8, 4, 2)
    assert len(cut.ffn) == 8
