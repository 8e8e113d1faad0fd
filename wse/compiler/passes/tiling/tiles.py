"""Tiles of ops: the parts of weight matrices and norm gains that a PE of a region stores.

Decode and MeshGEMM use different layouts. The stage of all tiles is set to 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse.compiler.passes.tiling.tile_parts import matrix_tile, part_of, tile_of, vector_tile
from wse.compiler.state import RegionCut
from wse.errors import WseBug
from wse.models.op import Op
from wse.program.steps import COLUMNS, ROWS, SKEWED
from wse.program.tiles import Tile


def tiles_in_place(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of an op's matrices and gains, in the layout that decode uses.

    Prefill uses the same tiles if its matrix product is thin GEMM, which processes all tokens of a
    prompt chunk in the arrangement of decode. The tiles of routers and experts are created in
    `wse.compiler.passes.tiling.op_tiles`.

    Raises:
        WseBug: The kind of op is unknown.
    """
    hidden, ffn = (cut.hidden, COLUMNS), (cut.feed_forward(op.kind), ROWS)
    queries, keys = (cut.queries, ROWS), (cut.keys, ROWS)
    match op.kind:
        case "embedding" | "head":
            indices = (cut.vocab, cut.positions)
            return [
                matrix_tile([table], (index, ROWS), hidden, transposed=False)
                for table, index in zip(op.weights, indices, strict=False)
            ]
        case "norm" | "unit_norm" | "post_norm" | "block_sum":
            return [vector_tile([gain], hidden) for gain in op.weights]
        case "qkv":
            are_queries = [name.endswith((".q", ".q_gate")) for name in op.weights]
            return [matrix_tile(op.weights, hidden, *[queries if is_query else keys for is_query in are_queries])]
        case "output":
            return [matrix_tile(op.weights, queries, hidden)]
        case "gate_up" | "shared_gate_up" | "product":
            *projections, last = op.weights
            if not last.endswith("shared.scale"):
                return [matrix_tile(op.weights, hidden, *[ffn] * len(op.weights))]
            scale_of_column = np.zeros((cut.cols, 1), np.int32), ROWS
            return [
                matrix_tile(projections, hidden, *[ffn] * len(projections)),
                matrix_tile([last], hidden, scale_of_column),
            ]
        case "down" | "shared_down":
            return [matrix_tile(op.weights, ffn, hidden)]
        case _ if not op.weights:
            return []
        case "delta_inputs" | "delta_rule" | "delta_output":
            return _linear_tiles(op, cut)
        case _ if cut.latent is not None:
            return _latent_tiles(op, cut)
    raise WseBug(f"no tiles are known for ops of kind {op.kind}")


def skewed_tiles(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of an op for prefill by MeshGEMM, one tile per tensor.

    These tiles are a second copy of the weights (``mesh-gemm-own-weights``). MeshGEMM starts with
    tiles that are rotated by a different number of places in each row and column, and the copy is
    stored in this arrangement. Outputs and gains are partitioned across columns.
    """
    parts = [part for tile in tiles_in_place(op, cut) for part in tile.parts]
    return [
        tile_of([replace(part, outer_axis=ROWS if part.outer is None else SKEWED, inner_axis=ROWS)]) for part in parts
    ]


def _latent_tiles(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of a latent-attention op: the parts of matrices that PEs store."""
    assert cut.latent is not None
    source, latent, hidden, rotated = (
        (index, ROWS) for index in (cut.latent.source, cut.latent.latent, cut.latent.hidden, cut.heads.features)
    )
    nope, rope, value = ((index, COLUMNS) for index in (cut.latent.nope, cut.latent.rope, cut.latent.value))
    match op.kind:
        case "latent_compress":
            outputs = (source, rotated, latent)[-len(op.weights) :]
            return [matrix_tile(op.weights, (cut.hidden, COLUMNS), *outputs)]
        case "latent_norm":
            indices = (source, latent)[-len(op.weights) :]
            return [vector_tile([gain], index) for gain, index in zip(op.weights, indices, strict=True)]
        case "latent_query":
            q_nope, q_rope, k_b = op.weights
            return [
                matrix_tile([q_nope, q_rope], source, nope, rope),
                matrix_tile([k_b], nope, latent, transposed=False),
            ]
        case "latent_output":
            v_b, o = op.weights
            return [matrix_tile([v_b], latent, value), matrix_tile([o], value, hidden)]
    raise WseBug(f"no tiles are known for ops of kind {op.kind}")


def _linear_tiles(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of an op of linear attention.

    A PE stores the convolution weights of its own queries and keys, and of all values of its
    column.
    """
    assert cut.linear is not None
    hidden, keys, values, heads = (
        (cut.hidden, COLUMNS),
        *((index, ROWS) for index in (cut.linear.keys, cut.linear.values, cut.linear.value_heads)),
    )
    match op.kind:
        case "delta_inputs":
            return [matrix_tile(op.weights, hidden, keys, keys, values, values, heads, heads)]
        case "delta_output":
            return [matrix_tile(op.weights, values, hidden)]
    *key_taps, value_taps = op.weights
    taps, own_keys, offset = (cut.linear.taps, ROWS), (cut.linear.key_features, COLUMNS), cut.linear.key_offsets
    return [
        tile_of([part_of(name, taps, own_keys, transposed=True, offset=offset) for name in key_taps]),
        matrix_tile([value_taps], taps, values),
    ]
