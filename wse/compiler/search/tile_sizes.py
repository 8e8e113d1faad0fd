"""Sizes of weight tiles, without their contents, for compilations that only need sizes.

A search needs only the sizes. They depend on the shape of a region and the kind of layer, so there
are few distinct sizes, and each is computed only once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

from wse.compiler.passes.shard import (
    distinct_tiles,
    model_shape,
    region_tables,
    regions_of,
    shard,
    table_needs,
    weights_buffer,
    with_cuts,
)
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.op_tiles import ROUTED, Tiling, op_tiles, tiling_of
from wse.compiler.passes.tiling.region_cuts import RegionShape, region_cut
from wse.compiler.pipeline import PIPELINE, Pass
from wse.compiler.state import State
from wse.models.op import Op, name_in_layer
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import coding_of
from wse.program.tiles import Tile
from wse_mappings.cuts.layer_parts import BLOCK


class TileSize(NamedTuple):
    """Name and size of a weight tile (the part of one or more tensors that one PE stores).

    Attributes:
        name: Name of the tile.
        view: How kernels read the elements, such as ``wgt`` for weights or ``f32``.
        elements: Elements per PE.
    """

    name: str
    view: str
    elements: int


class Sizes(NamedTuple):
    """Functions that return the sizes of a model's weight tiles (the weights that one PE stores).

    The functions cache their results.

    Attributes:
        sizes_of_op: Function of a region (a rectangle of PEs) and an op of the model, which returns
            the sizes of the op's tiles.
        sizes_of_tables: Function that returns the sizes of the frequency and index tables on a
            region. Its arguments are the region, whether it contains attention, and the names of
            its frequency tables.
    """

    sizes_of_op: Callable[[RegionShape, Op], list[TileSize]]
    sizes_of_tables: Callable[[RegionShape, bool, tuple[str, ...]], list[TileSize]]


def size_tiles(state: State) -> State:
    """Compute the sizes of all weight tiles, without creating the tiles.

    This fills in ``cuts`` and ``weights`` like the pass `shard`. A search needs only the sizes.
    """
    sizes, regions = sizes_of(state), regions_of(state)
    weights = [
        weights_buffer(
            stage, name_in_layer(tile.name, op.layer) if op.layer > 0 else tile.name, tile.view, tile.elements
        )
        for op, stage, tile in distinct_tiles(state, lambda op, stage, _: sizes.sizes_of_op(regions[stage], op))
    ]
    weights += [
        weights_buffer(stage, *tile)
        for stage, (region, tables) in enumerate(zip(regions, table_needs(state), strict=True))
        for tile in sizes.sizes_of_tables(region, *tables)
    ]
    return replace(with_cuts(state), weights=tuple(weights))


WITHOUT_TILES: Final[tuple[Pass, ...]] = tuple(size_tiles if step is shard else step for step in PIPELINE)
"""Compiler passes that create Programs without tiles.

Such Programs have the same cycles and traffic. Tile indices take up most of the memory of a
compilation.
"""


def sizes_of(state: State) -> Sizes:
    """Return functions that compute how large the weight tiles of a model are.

    A weight tile is the part of one or more tensors that one PE stores. The functions, and the
    sizes that they compute, are cached and reused for models that differ only in their layers.
    """
    weight_types, sizes = WeightTypes.from_options(state.options), state.options.cache.of(_sizes, 4)
    return sizes(model_shape(state), weight_types, state.options.scope, tiling_of(state))


def _sizes(spec: ModelSpec, weight_types: WeightTypes, scope: str, tiling: Tiling) -> Sizes:
    """Create the functions that compute the sizes of a model's weight tiles and cache the results.

    Args:
        spec: Shape of the model, without its layers.
        weight_types: Element types of weights and activations.
        scope: Part of the model to compile, such as ``model`` or ``layers``.
        tiling: Settings that determine how tensors are divided into tiles.
    """

    def sizes_of_op(region: RegionShape, op: Op) -> list[TileSize]:
        """Return the name, view and elements per PE of each weight tile of an op on a region."""
        parts = op.parts if op.parts.cuts_block else BLOCK
        cut = region_cut(spec, weight_types, scope, region, parts)
        if op.kind in ROUTED and cut.experts is not None and _has_equal_experts(spec, tiling, op):
            cut = replace(cut, experts=cut.experts.one_group())
        return _tile_sizes(op_tiles(weight_types.cache, spec, tiling, op, cut))

    def sizes_of_tables(region: RegionShape, with_layers: bool, frequencies: tuple[str, ...]) -> list[TileSize]:  # noqa: FBT001
        """Return the name, view and elements per PE of each table of a region.

        The tables contain rotary frequencies and, for latent attention, indices.

        Args:
            region: Shape of the region.
            with_layers: Whether the region contains attention.
            frequencies: Names of its tables of rotary frequencies.
        """
        cut = region_cut(spec, weight_types, scope, region)
        return _tile_sizes(region_tables(spec, cut, with_layers=with_layers, frequencies=frequencies))

    return Sizes(cache(sizes_of_op), cache(sizes_of_tables))


def _has_equal_experts(spec: ModelSpec, tiling: Tiling, op: Op) -> bool:
    """Return whether all experts of an op have tiles of equal size, so that one represents all.

    This is the case if an expert's feature count is a multiple of the number of adjacent outputs
    that share a scale, because the scales then start at the same places in every expert.

    Args:
        spec: Model.
        tiling: Compiler settings, of which only the weight type is used.
        op: Op with the weights of the experts.
    """
    codings = [coding_of(spec, matrix, tiling.dtype) for matrix in op.weights]
    size = 0 if spec.experts is None else spec.experts.ffn_size
    return all(coding is None or size % coding.block == 0 for coding in codings)


def _tile_sizes(tiles: list[Tile]) -> list[TileSize]:
    """Return the sizes of weight tiles: name, view and number of elements of each."""
    return [TileSize(tile.name, tile.view, tile.elements) for tile in tiles]
