"""Tiles of an op in the layouts of all phases, as stored in the element type of the request."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from wse.arrays import I32
from wse.compiler.options import DECODE, MESH_GEMM_OWN, NORM_SCALES, PREFILL, ROUTER_COPIES, ROUTER_SCORES, VERIFY
from wse.compiler.passes.tiling.expert_tiles import ROUTED, expert_tiles, router_tiles
from wse.compiler.passes.tiling.quantised_tiles import coded_tiles
from wse.compiler.passes.tiling.tiles import column_vectors, hidden_vectors, norm_products, skewed_tiles, tiles_in_place
from wse.compiler.state import RegionCut, State
from wse.models.graph import Op
from wse.models.spec import ModelSpec
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile
from wse_mappings.cuts.output_copies import copied_blocks
from wse_mappings.result_cache import ResultCache

ROUTER_OP = "router"

_OF_EXPERTS = (ROUTER_OP, *ROUTED)
"""Kinds of ops that have router or expert tiles."""


class Tiling(NamedTuple):
    """Compilation choices that, together with a region's division, determine its weight tiles.

    Attributes:
        dtype: Storage type of the weights.
        phases: Phases that use the tiles.
        prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        with_norms: Whether the tiles of `norm_products` are needed.
        scored_on_columns: Whether, on single-wafer regions, each column computes only the scores of
            its own router outputs.
        router_outputs: Maximum number of router outputs per column if several column segments
            compute them all; 0 if there is a single segment.
    """

    dtype: str
    phases: tuple[str, ...]
    prefill: str
    with_norms: bool
    scored_on_columns: bool
    router_outputs: int


def tiling_of(state: State) -> Tiling:
    """Return the compilation choices on which the contents of weight tiles depend."""
    options, choice = state.options, state.choice
    phases = (*options.phases, *([VERIFY] if options.verify_tokens else []))
    with_norms = state.spec.norm == "layer" and choice.uses(NORM_SCALES)
    scored_on_columns, router_outputs = choice.always_uses(ROUTER_SCORES), choice.setting_of(ROUTER_COPIES)
    return Tiling(options.dtype, phases, choice.prefill, with_norms, scored_on_columns, router_outputs)


def prefill_tile_name(tensor: str) -> str:
    """Return the name under which a PE stores the second copy of a weight tile, for prefill only.

    Only the matrix product ``mesh-gemm-own-weights`` uses such copies.
    """
    return f"prefill.{tensor}"


def op_tiles(cache: ResultCache, spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of one op, in the layouts of all phases, as tiles of stage 0.

    If prefill by MeshGEMM has its own weights, ops in layers have two layouts; other ops have one.
    Results are cached because layers share them. Only a few results are cached for experts, because
    an index of all experts for each column of many wafers needs tens of megabytes.

    Args:
        cache: The request's cache.
        spec: Model.
        tiling: Choices that determine the tiles, in addition to ``cut``.
        op: The op.
        cut: Division over the region of the stage.
    """
    if op.kind in _OF_EXPERTS:
        return cache.of(_expert_tiles, 6)(spec, tiling, op, cut)
    return cache.of(_tiles_without_experts, 64)(spec, tiling, op, cut)


def _expert_tiles(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles (the weights that each PE stores) of a router op or an expert op."""
    on_columns = tiling.scored_on_columns and cut.span == 1
    whole_tiles = (
        router_tiles(op, cut, _router_index(spec, tiling, cut), scored_on_columns=on_columns)
        if op.kind == ROUTER_OP
        else expert_tiles(op, cut, spec.hidden_size)
    )
    return [tile for whole_tile in whole_tiles for tile in coded_tiles(whole_tile, spec, tiling.dtype, op.parts)]


def _router_index(spec: ModelSpec, tiling: Tiling, cut: RegionCut) -> I32:
    """Return the indices of the router outputs that each column computes.

    Returns:
        int32 ``[cols, n]``; -1 is padding.
    """
    outputs = spec.experts.count if spec.experts else 0
    return copied_blocks(outputs, cut.cols, cut.router_copies(outputs, tiling.router_outputs))


def _tiles_without_experts(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles (the weights that each PE stores) of an op outside the experts."""
    tiles = column_vectors(op, cut, spec)
    is_stored_twice = op.layer >= 0 and tiling.prefill == MESH_GEMM_OWN
    if not is_stored_twice or {DECODE, VERIFY} & {*tiling.phases}:
        tiles += [
            tile
            for whole_tile in tiles_in_place(op, cut)
            for tile in coded_tiles(whole_tile, spec, tiling.dtype, op.parts)
        ]
        tiles += hidden_vectors(op, cut, COLUMNS)
        tiles += norm_products(op, cut, spec) if tiling.with_norms else []
    if is_stored_twice and PREFILL in tiling.phases:
        prefill_tiles = skewed_tiles(op, cut) + hidden_vectors(op, cut, ROWS)
        tiles += [replace(tile, name=prefill_tile_name(tile.name)) for tile in prefill_tiles]
    return tiles
