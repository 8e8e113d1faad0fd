"""Vectors that a PE stores: an op's trained vectors, and float32 tables of indices.

Trained vectors are divided like the values they apply to. A vector over outputs, which are divided
over columns, is the same in all rows and is used in every phase. A vector over hidden features is
partitioned across rows for decode, and across columns for MeshGEMM.
"""

from __future__ import annotations

import numpy as np

from wse.arrays import I32
from wse.compiler.passes.tiling.tile_parts import part_of, tile_of, vector_tile
from wse.compiler.state import RegionCut
from wse.errors import WseBug
from wse.models.op import Op
from wse.models.spec import Layer, ModelSpec
from wse.program.program import FREQUENCIES, ORDINALS, TIMES, WINDOW_FREQUENCIES
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile

WITH_NORM_PRODUCTS = ("qkv", "gate_up")
"""Kinds of ops to whose products the norm of their input may be applied, instead of to the input."""


def column_vectors(op: Op, cut: RegionCut, spec: ModelSpec) -> list[Tile]:
    """Return the tiles of an op's trained vectors that are split across columns in every phase.

    Such vectors are biases, head-norm gains and attention sinks. Vectors over hidden features are
    excluded.

    Args:
        op: The op.
        cut: Partitioning of the model dimensions across the PEs of the region.
        spec: Model.
    """
    return [
        tile_of(
            [part_of(name, None, (_over_columns(name, cut, spec), ROWS)) for name in group],
            view="acc" if op.kind == "stream_scale" else "wgt",
        )
        for group in op.vectors
        if not _is_hidden(group[0])
    ]


def hidden_vectors(op: Op, cut: RegionCut, axis: int) -> list[Tile]:
    """Return the tiles of an op's trained vectors over hidden features, such as norm biases.

    Args:
        op: The op.
        cut: Partitioning of the model dimensions across the PEs of the region.
        axis: Axis along which the features vary: COLUMNS for decode, ROWS for MeshGEMM.
    """
    return [vector_tile(group, *[(cut.hidden, axis)] * len(group)) for group in op.vectors if _is_hidden(group[0])]


def norm_products(op: Op, cut: RegionCut, spec: ModelSpec) -> list[Tile]:
    """Return a tile with the products of an op's matrices and the preceding norm's gain and bias.

    The rewrite `norm_scales` needs these products to apply a LayerNorm to the results of an op
    instead of its inputs. Products with the gain come first, then products with the bias. They are
    float32 and partitioned across columns.

    Args:
        op: The op.
        cut: Partitioning of the model dimensions across the PEs of the region.
        spec: Model.

    Returns:
        A list with the tile; an empty list for ops that do not follow such a norm.
    """
    if op.kind not in WITH_NORM_PRODUCTS or not op.input_norm:
        return []
    over_columns = [(_over_columns(f"{name}_bias", cut, spec), ROWS) for name in op.weights]
    parts = [
        part_of(f"{name}{TIMES}{vector.rpartition('.')[2]}", None, outputs)
        for vector in (op.input_norm, f"{op.input_norm}_bias")[: 1 + spec.has_norm_bias]
        for name, outputs in zip(op.weights, over_columns, strict=True)
    ]
    return [tile_of(parts, view="f32", name=norm_products_name(op.input_norm))]


def norm_products_name(norm: str) -> str:
    """Return the name of the tile with the products of weights and a norm's gain and bias.

    `norm_products` creates this tile.
    """
    return f"{norm}_products"


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
        case "stream_scale":
            return np.zeros((cut.cols, 1), np.int32)
        case "q_a_bias" if cut.latent is not None:
            return cut.latent.source
        case "kv_a_bias" if cut.latent is not None:
            return cut.latent.latent
    raise WseBug(f"no division over columns is known for {name}")


FIRST_KEY = "first_key_feature"
"""Table of linear attention: first key feature of a column, numbered from 1; 0 means none."""

HEADS, FIRST, WANTED = "heads_of_row", "rotated_of_row", "rotated_of_column"
"""Tables of latent attention: heads of a row, its first rotated feature, features of a column.

Positions are numbered from 1; 0 means padding.
"""


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


def frequencies_name(spec: ModelSpec, layer: Layer) -> str:
    """Return the name of the tile with the frequencies of a layer's rotary position embeddings."""
    if spec.window_heads is not None:
        return FREQUENCIES if layer.window is None else WINDOW_FREQUENCIES
    return WINDOW_FREQUENCIES if spec.rope_of(layer) == spec.window_rope else FREQUENCIES


def frequency_table(cut: RegionCut, count: int, name: str) -> Tile:
    """Return the float32 tile with the inverse frequency of each rotary pair of a column.

    A rotary pair consists of two features that the rotary embedding rotates together.

    Args:
        cut: Partitioning of the model dimensions across the PEs of the region.
        count: Number of frequencies of the model. Pairs beyond the last frequency get 0 and are
            therefore not rotated.
        name: Name of the tile.
    """
    first = cut.heads.features[:, : cut.heads.rotated // 2]
    features = np.ascontiguousarray(np.where(first < count, first, np.int32(-1)))
    return tile_of([part_of(name, None, (features, ROWS))], view="f32")
