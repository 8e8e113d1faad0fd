"""Tiles of routers and experts: the part of their tensors that each PE of a region stores.

The outputs of a router are divided over columns. The experts are assigned to columns, each of which
may store only some features of an expert (`wse_mappings.cuts.expert_groups`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse.arrays import I32
from wse.compiler.passes.tiling.tiles import matrix_tile, part_of, tile_of
from wse.compiler.state import RegionCut
from wse.models.graph import Op
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile, TilePart
from wse_mappings.cuts.expert_groups import ExpertGroups

ROUTED = ("experts", "experts_down")
"""Kinds of ops that have expert weights."""


def router_tiles(op: Op, cut: RegionCut, outputs: I32, *, scored_on_columns: bool) -> list[Tile]:
    """Return the weight tiles of an expert router: its matrix and its vectors.

    Args:
        op: Op of kind ``router``.
        cut: Division over the region.
        outputs: int32 ``[cols, n]``: outputs of the router on each column.
        scored_on_columns: Whether each column computes the scores of only its own outputs. A column
            then stores the score corrections of these outputs; otherwise every PE stores the
            corrections of all outputs. Corrections are float32.
    """
    return [
        matrix_tile(op.weights, (cut.hidden, COLUMNS), (outputs, ROWS)),
        *(_router_vector(name, outputs, scored_on_columns=scored_on_columns) for (name,) in op.vectors),
    ]


def expert_tiles(op: Op, cut: RegionCut, hidden_size: int) -> list[Tile]:
    """Return the weight tiles of experts: matrices first, then bias vectors.

    An expert's gate and up matrices are stored side by side, as one matrix. Biases are added to
    partial sums before an all-reduce. The PEs of the all-reduce therefore divide each bias equally:
    the rows divide the gate and up biases, and the columns of a group divide the down biases.

    Args:
        op: Op of kind ``experts`` or ``experts_down``.
        cut: Division over the region.
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


def _router_vector(name: str, outputs: I32, *, scored_on_columns: bool) -> Tile:
    """Return the tile of a router's bias, or of the corrections added to scores to select experts.

    Args:
        name: Name of the vector, which says which of the two it is.
        outputs: int32 ``[cols, n]``: router outputs that each column of PEs computes.
        scored_on_columns: Whether a column needs only the corrections of its own outputs.
    """
    is_correction = name.endswith("router_correction")
    if scored_on_columns or not is_correction:
        return tile_of([part_of(name, None, (outputs, ROWS))], view="f32" if is_correction else "wgt")
    experts = int(outputs.max(initial=-1)) + 1
    index_on_every_pe = np.broadcast_to(np.arange(experts, dtype=np.int32), (len(outputs), experts))
    return tile_of([part_of(name, None, (index_on_every_pe, ROWS))], view="f32")


def _expert_down(name: str, groups: ExpertGroups, cut: RegionCut, hidden_size: int, *, vector: bool) -> TilePart:
    """Return the part of a weight tile with the down-projections of a column's experts.

    Args:
        name: Name of the tensor with all experts.
        groups: Assignment of experts to columns.
        cut: Division over the region.
        hidden_size: Number of hidden features of the model.
        vector: Whether the part contains the biases of the projections instead of their matrices.
    """
    experts = groups.shared_experts() if vector else groups.experts
    offset = np.where(experts >= 0, experts * np.int32(hidden_size), np.int32(-1))
    inputs = None if vector else (groups.features, ROWS)
    return part_of(name, inputs, (cut.hidden, COLUMNS), transposed=not vector, offset=offset)
