"""Weight tiles of an op, with a second copy if prefill needs one; tiles of routers and experts.

The outputs of a router are partitioned across columns. The experts are assigned to columns, each of
which may store only some features of an expert (`wse_mappings.cuts.expert_groups`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.arrays import I32
from wse.compiler.options import DECODE, MESH_GEMM_OWN, NORM_SCALES, PREFILL, ROUTER_COPIES, ROUTER_SCORES, VERIFY
from wse.compiler.passes.tiling.quantised_tiles import coded_tiles
from wse.compiler.passes.tiling.tile_parts import matrix_tile, part_of, tile_of
from wse.compiler.passes.tiling.tiles import skewed_tiles, tiles_in_place
from wse.compiler.passes.tiling.vector_tiles import column_vectors, hidden_vectors, norm_products
from wse.compiler.state import RegionCut, State
from wse.models.op import Op
from wse.models.spec import ModelSpec
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile, TilePart
from wse_mappings.cuts.expert_groups import ExpertGroups
from wse_mappings.cuts.split import copied_blocks
from wse_mappings.result_cache import ResultCache

ROUTED = ("experts", "experts_down")
"""Kinds of ops that have expert weights."""


def with_expert_order(cut: RegionCut, order: I32) -> RegionCut:
    """Return the partitioning of a region for a layer that places its experts in a given order.

    Args:
        cut: Partitioning of the model dimensions across the region, with experts in order of their
            indices.
        order: int32 ``[experts]``: the expert at each position.
    """
    groups = cut.experts
    if groups is not None:
        groups = replace(groups, experts=_at_positions(order, groups.experts))
    return replace(cut, experts=groups, expert_order=order)


def _at_positions(order: I32, positions: I32) -> I32:
    """Return which expert is at each given position; -1 where the position is -1 (padding)."""
    return np.where(positions < 0, np.int32(-1), order[positions])


def router_tiles(op: Op, cut: RegionCut, outputs: I32, *, scored_on_columns: bool) -> list[Tile]:
    """Return the weight tiles of an expert router: its matrix and its vectors.

    Args:
        op: Op of kind ``router``.
        cut: How model dimensions are divided over the PEs of the region.
        outputs: int32 ``[cols, n]``: positions of the router's outputs on each column.
        scored_on_columns: Whether each column computes scores only for its own outputs, and
            therefore stores only their float32 score corrections. Otherwise every PE stores all
            corrections.
    """
    count = int(outputs.max(initial=-1)) + 1
    order = np.arange(count, dtype=np.int32) if cut.expert_order is None else cut.expert_order
    on_columns = _at_positions(order, outputs)
    all_outputs = np.broadcast_to(order, (len(outputs), count))
    return [
        matrix_tile(op.weights, (cut.hidden, COLUMNS), (on_columns, ROWS)),
        *(_router_vector(name, on_columns, all_outputs, scored_on_columns=scored_on_columns) for (name,) in op.vectors),
    ]


def expert_tiles(op: Op, cut: RegionCut, hidden_size: int) -> list[Tile]:
    """Return the weight tiles of experts: matrices first, then bias vectors.

    An expert's gate and up matrices are stored side by side, as one matrix. Biases are added to
    partial sums before an all-reduce, so each element of a bias must be stored on only one PE of
    the all-reduce. The rows therefore divide the gate and up biases among themselves, and the
    columns of a group divide the down biases.

    Args:
        op: Op of kind ``experts`` or ``experts_down``.
        cut: Partitioning of the model dimensions across the PEs of the region.
        hidden_size: Number of hidden features of the model.
    """
    hidden, groups = (cut.hidden, COLUMNS), cut.experts
    assert groups is not None
    if op.kind == "experts":
        rows = (groups.rows, ROWS)
        matrices = replace(matrix_tile(op.weights, hidden, *[rows] * len(op.weights)), blocks=groups.experts_per_col)
        vectors = [[part_of(name, None, rows, sharers=cut.rows) for name in group] for group in op.vectors]
        return [matrices, *map(tile_of, vectors)]
    names = [(op.weights[0], False), *((name, True) for (name,) in op.vectors)]
    return [tile_of([_expert_down(name, groups, cut, hidden_size, vector=vector)]) for name, vector in names]


def _router_vector(name: str, on_columns: I32, all_outputs: I32, *, scored_on_columns: bool) -> Tile:
    """Return the tile of a router's bias, of score corrections, or of the experts' scales.

    Args:
        name: Name of the vector, which says what it contains. Corrections are added to the scores
            that select experts, and scales multiply the weights of selected experts.
        on_columns: int32 ``[cols, n]``: outputs of the router that each column computes.
        all_outputs: int32 ``[cols, experts]``: all outputs, for each column.
        scored_on_columns: Whether a column needs only the corrections of its own outputs.
    """
    is_correction = name.endswith("router_correction")
    if not name.endswith("expert_scale") and (scored_on_columns or not is_correction):
        return tile_of([part_of(name, None, (on_columns, ROWS))], view="f32" if is_correction else "wgt")
    return tile_of([part_of(name, None, (all_outputs, ROWS))], view="f32")


def _expert_down(name: str, groups: ExpertGroups, cut: RegionCut, hidden_size: int, *, vector: bool) -> TilePart:
    """Return the part of a weight tile with the down-projections of a column's experts.

    Args:
        name: Name of the tensor with all experts.
        groups: Assignment of experts to columns.
        cut: Partitioning of the model dimensions across the PEs of the region.
        hidden_size: Number of hidden features of the model.
        vector: Whether the part contains the biases of the projections instead of their matrices.
    """
    experts = groups.shared_experts() if vector else groups.experts
    offset = np.where(experts >= 0, experts * np.int32(hidden_size), np.int32(-1))
    inputs = None if vector else (groups.features, ROWS)
    return part_of(name, inputs, (cut.hidden, COLUMNS), transposed=not vector, offset=offset)


ROUTER_OP = "router"

OF_EXPERTS = (ROUTER_OP, *ROUTED)
"""Kinds of ops that have router or expert tiles."""


class Tiling(NamedTuple):
    """Compilation choices that determine which weights each PE stores (its weight tiles).

    The partitioning of the model dimensions across the region of PEs is not included.

    Attributes:
        dtype: Storage type of the weights.
        phases: Phases that use the tiles.
        prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        with_norms: Whether the products of weights and norm vectors are also stored
            (`norm_products`).
        scored_on_columns: Whether, on single-wafer regions, each column computes only the scores of
            its own router outputs. An expert router has one output per expert.
        router_outputs: Maximum number of router outputs per column. The columns are divided into as
            many segments as this allows, each of which computes all outputs. 0 means that the whole
            region is one segment.
    """

    dtype: str
    phases: tuple[str, ...]
    prefill: str
    with_norms: bool
    scored_on_columns: bool
    router_outputs: int


def tiling_of(state: State) -> Tiling:
    """Collect the compilation choices on which the contents of weight tiles depend."""
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
    """Return the weight tiles of one op for all phases, with stage number 0.

    A tile is the block of a tensor that one PE stores. If prefill by MeshGEMM uses its own copy of
    the weights, there are two tiles for each weight matrix of a layer. Layers share the cached
    results. Only a few results are cached for experts, because each may need tens of megabytes.

    Args:
        cache: The request's cache.
        spec: Model.
        tiling: Choices that determine the tiles, in addition to ``cut``.
        op: The op.
        cut: Partitioning of the model dimensions across the PEs of the stage.
    """
    if op.windowed and cut.window is not None:
        spec, cut = spec.with_window_heads, cut.window
    if op.kind in OF_EXPERTS:
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
    """Return which router outputs (one per expert) each column of PEs computes.

    Returns:
        int32 ``[cols, n]``: positions of the outputs; -1 is padding.
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
