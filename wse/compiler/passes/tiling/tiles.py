"""Tiles of ops: the parts of weight tensors that a PE of a region stores. Their stage is set to 0.

Matrices are ``[inputs, outputs]``. Inputs and outputs are each divided along one axis of the
region. Trained vectors (biases, head gains, sinks) are divided like the values they apply to. A
vector over outputs, which are divided over columns, is the same in all rows and is used in every
phase. A vector over hidden features is divided over rows for decode, and over columns for MeshGEMM.

An axis is ROWS or COLUMNS, as in `wse.program.steps`. Indices ``[cols, n]`` differ from column to
column, so their axis is ROWS: they vary along each row of PEs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wse.arrays import I32
from wse.compiler.state import RegionCut
from wse.errors import WseBug
from wse.models.graph import Op
from wse.models.spec import ModelSpec, Rope
from wse.program.program import FREQUENCIES, ORDINALS, TIMES, WINDOW_FREQUENCIES
from wse.program.steps import COLUMNS, ROWS, SKEWED
from wse.program.tiles import Tile, TilePart

Cut = tuple[I32, int]
"""Indices ``[rows or cols, n]`` and the axis along which they vary, ROWS, COLUMNS or SKEWED."""


NORM_OF = {"qkv": "attention_norm", "gate_up": "mlp_norm"}
"""For ops whose norm may be applied after their products, the name of that norm."""

FIRST_KEY = "first_key_feature"
"""Table of linear attention: first key feature of a column, numbered from 1; 0 means none."""

HEADS, FIRST, WANTED = "heads_of_row", "rotated_of_row", "rotated_of_column"
"""Tables of latent attention: heads of a row, its first rotated feature, features of a column.

Positions are numbered from 1; 0 means padding.
"""


def part_of(
    tensor: str,
    outer_cut: Cut | None,
    inner_cut: Cut,
    *,
    transposed: bool = False,
    offset: I32 | None = None,
    sharers: int = 1,
) -> TilePart:
    """Return the part of a weight tile that comes from one tensor.

    Args:
        tensor: Name of the tensor.
        outer_cut: How the inputs are divided over PEs; None for a vector.
        inner_cut: How the outputs, or the elements of a vector, are divided over PEs.
        transposed: Whether the tensor is ``[outputs, inputs]``.
        offset: int32 ``[cols, n]``, if a PE stores n blocks with the same division, such as one per
            expert: number to add to the indices of ``inner_cut`` for each block on each column. A
            block with the offset -1 is padding.
        sharers: Number of neighbouring PEs, along the axis other than that of ``inner_cut``, among
            which the inner elements are divided. Each PE stores one of ``sharers`` equal blocks.
    """
    index, axis = (None, ROWS) if outer_cut is None else outer_cut
    return TilePart(
        tensor=tensor,
        outer=index,
        outer_axis=axis,
        inner=inner_cut[0],
        inner_axis=inner_cut[1],
        transposed=transposed,
        offset=offset,
        sharers=sharers,
    )


def tile_of(parts: Sequence[TilePart], *, view: str = "wgt", name: str = "", blocks: int = 1) -> Tile:
    """Return a weight tile that stores parts of several tensors side by side.

    Args:
        parts: For each tensor, the part that belongs to the tile.
        view: How kernels read the elements, such as ``wgt`` for weights or ``f32``.
        name: Name of the tile. By default, the tensor names of its parts, joined by ``+``.
        blocks: Number of blocks of each part, such as the experts of a column.
    """
    outer_cut = parts[0].outer
    return Tile(
        stage=0,
        name=name or "+".join(dict.fromkeys(part.tensor for part in parts)),
        address=-1,
        view=view,
        outer=1 if outer_cut is None else outer_cut.shape[1],
        inner=sum(part.width for part in parts),
        parts=tuple(parts),
        blocks=blocks,
    )


def matrix_tile(tensors: Sequence[str], inputs: Cut, *outputs: Cut, transposed: bool = True) -> Tile:
    """Return a weight tile that stores several matrices with the same inputs side by side.

    Args:
        tensors: Names of the tensors.
        inputs: How the inputs are divided over PEs.
        outputs: For each tensor, how its outputs are divided over PEs.
        transposed: Whether the tensors are ``[outputs, inputs]``.
    """
    pairs = zip(tensors, outputs, strict=True)
    return tile_of([part_of(tensor, inputs, cut, transposed=transposed) for tensor, cut in pairs])


def _vectors(tensors: Sequence[str], *cuts: Cut) -> Tile:
    """Return a tile that stores several trained vectors one after another.

    Args:
        tensors: Names of the vectors.
        cuts: For each vector, the elements that PEs store, and the axis along which they vary.
    """
    return tile_of([part_of(tensor, None, cut) for tensor, cut in zip(tensors, cuts, strict=True)])


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
        case "norm" | "post_norm":
            return [_vectors(op.weights, hidden)]
        case "qkv":
            gates = [queries] * (len(op.weights) - 3)
            return [matrix_tile(op.weights, hidden, queries, keys, keys, *gates)]
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
    message = f"no tiles are known for ops of kind {op.kind}"
    raise WseBug(message)


def skewed_tiles(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of an op for prefill by MeshGEMM, one tile per tensor.

    These tiles are a second copy of the weights (``mesh-gemm-own-weights``). MeshGEMM starts with
    tiles that are rotated by a different number of places in each row and column, and the copy is
    stored in this arrangement. Outputs and gains are divided over columns.
    """
    parts = [part for tile in tiles_in_place(op, cut) for part in tile.parts]
    return [
        tile_of([replace(part, outer_axis=ROWS if part.outer is None else SKEWED, inner_axis=ROWS)]) for part in parts
    ]


def column_vectors(op: Op, cut: RegionCut, spec: ModelSpec) -> list[Tile]:
    """Return the tiles of an op's trained vectors that are divided over columns in every phase.

    Such vectors are biases, head-norm gains and attention sinks. Vectors over hidden features are
    excluded.

    Args:
        op: The op.
        cut: How model dimensions are divided over the PEs of the region.
        spec: Model.
    """
    return [
        _vectors(group, *((_over_columns(name, cut, spec), ROWS) for name in group))
        for group in op.vectors
        if not _is_hidden(group[0])
    ]


def norm_products(op: Op, cut: RegionCut, spec: ModelSpec) -> list[Tile]:
    """Return a tile with the products of an op's matrices and the preceding norm's gain and bias.

    The rewrite `norm_scales`, which applies a LayerNorm after the op instead of before it, needs
    these products. Products with the gain come first, then products with the bias. They are float32
    and divided over columns.

    Args:
        op: The op.
        cut: How model dimensions are divided over the PEs of the region.
        spec: Model.

    Returns:
        A list with the tile; an empty list for ops that do not follow such a norm.
    """
    if op.kind not in NORM_OF or not spec.pre_norms:
        return []
    norm, over_columns = NORM_OF[op.kind], [(_over_columns(f"{name}_bias", cut, spec), ROWS) for name in op.weights]
    parts = [
        part_of(f"{name}{TIMES}{vector}", None, outputs)
        for vector in (norm, f"{norm}_bias")[: 1 + spec.has_norm_bias]
        for name, outputs in zip(op.weights, over_columns, strict=True)
    ]
    return [tile_of(parts, view="f32", name=norm_products_name(f"layers.{op.layer}.{norm}"))]


def norm_products_name(norm: str) -> str:
    """Return the name of the tile with the products of weights and a norm's gain and bias.

    `norm_products` creates this tile.
    """
    return f"{norm}_products"


def hidden_vectors(op: Op, cut: RegionCut, axis: int) -> list[Tile]:
    """Return the tiles of an op's trained vectors over hidden features, such as norm biases.

    Args:
        op: The op.
        cut: How model dimensions are divided over the PEs of the region.
        axis: Axis along which the features vary: COLUMNS for decode, ROWS for MeshGEMM.
    """
    return [_vectors(group, *[(cut.hidden, axis)] * len(group)) for group in op.vectors if _is_hidden(group[0])]


def index_tables(cut: RegionCut) -> list[Tile]:
    """Return the float32 tables from which kernels of latent or linear attention read indices.

    The list is empty for models without such attention.
    """
    if cut.linear is not None:
        return [tile_of([part_of(ORDINALS, None, (cut.linear.first_key, ROWS))], view="f32", name=FIRST_KEY)]
    if cut.latent is None:
        return []
    tables = (
        (HEADS, (cut.latent.heads, COLUMNS)),
        (FIRST, (cut.latent.first_rotated, COLUMNS)),
        (WANTED, (cut.heads.features, ROWS)),
    )
    return [tile_of([part_of(ORDINALS, None, index)], view="f32", name=name) for name, index in tables]


def frequencies_name(spec: ModelSpec, rope: Rope) -> str:
    """Return the name of the tile with the frequencies of a model's rotary position embeddings."""
    return WINDOW_FREQUENCIES if rope == spec.window_rope else FREQUENCIES


def frequency_table(cut: RegionCut, count: int, name: str) -> Tile:
    """Return the float32 tile with the inverse frequency of each rotary pair of a column.

    A rotary pair consists of two features that the rotary embedding rotates together.

    Args:
        cut: How model dimensions are divided over the PEs of the region.
        count: Number of frequencies of the model. Pairs beyond the last frequency get 0 and are
            therefore not rotated.
        name: Name of the tile.
    """
    first = cut.heads.features[:, : cut.heads.rotated // 2]
    features = np.ascontiguousarray(np.where(first < count, first, np.int32(-1)))
    return tile_of([part_of(name, None, (features, ROWS))], view="f32")


def _latent_tiles(op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of a latent-attention op: the parts of its matrices that PEs store."""
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
            return [_vectors([gain], index) for gain, index in zip(op.weights, indices, strict=True)]
        case "latent_query":
            q_nope, q_rope, k_b = op.weights
            return [
                matrix_tile([q_nope, q_rope], source, nope, rope),
                matrix_tile([k_b], nope, latent, transposed=False),
            ]
        case "latent_output":
            v_b, o = op.weights
            return [matrix_tile([v_b], latent, value), matrix_tile([o], value, hidden)]
    message = f"no tiles are known for ops of kind {op.kind}"
    raise WseBug(message)


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


def _is_hidden(name: str) -> bool:
    """Return whether a trained vector applies to hidden features, according to its name."""
    return name.endswith(("norm_bias", ".o_bias", ".down_bias"))


def _over_columns(name: str, cut: RegionCut, spec: ModelSpec) -> I32:
    """Return which elements of a trained vector each column of PEs stores.

    The result is int32 ``[cols, n]``. The name of the vector determines how it is divided.
    """
    match name.rpartition(".")[2]:
        case "head_bias":
            return cut.vocab
        case "q_bias" | "q_gate_bias":
            return cut.queries
        case "k_bias" | "v_bias":
            return cut.keys
        case "q_norm" | "k_norm" if spec.head_norm == "rms_all":
            return cut.queries if name.endswith("q_norm") else cut.keys
        case "q_norm" | "k_norm" | "k_rope_bias":
            return cut.heads.features
        case "sinks":
            return cut.heads.query_heads(spec.queries_per_kv)
        case "gate_bias" | "up_bias":
            return cut.shared if ".shared." in name else cut.ffn
        case "log_rate" | "decay_bias" if cut.linear is not None:
            return cut.linear.value_heads
        case "norm" if cut.linear is not None:
            return cut.linear.heads.features
        case "q_a_bias" if cut.latent is not None:
            return cut.latent.source
        case "kv_a_bias" if cut.latent is not None:
            return cut.latent.latent
    message = f"no division over columns is known for {name}"
    raise WseBug(message)
