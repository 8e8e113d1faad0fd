"""Tiles of latent attention: how its tensors are cut, and the tables that say which heads and features a PE has."""

from __future__ import annotations

from typing import NamedTuple

from wse.compiler.state import Shard, SymBuffer, SymTile
from wse.errors import WseBug
from wse.models.graph import Op
from wse.models.spec import ModelSpec
from wse.program.program import ORDINALS, Tile, TilePart
from wse.program.steps import COLUMNS, I32, ROWS
from wse_mappings.cuts.latent_cut import LatentCut, latent_cut

Cut = tuple[I32, int]
"""Indices and the axis that they vary along."""


class LatentTile(NamedTuple):
    """Tensors side by side: what a product contracts over, what comes out of it, and whether that is a tensor's first.

    Without an outer cut it is of vectors.
    """

    tensors: tuple[str, ...]
    outer: Cut | None
    inners: tuple[Cut, ...]
    transposed: bool = True


HEADS, FIRST, WANTED = "heads_of_row", "rotated_of_row", "rotated_of_column"
"""Tables of ordinals, 1 for the first and 0 for padding: a row's heads, its first rotated feature, a column's."""


def cut_latent(spec: ModelSpec, rows: int, cols: int) -> LatentCut | None:
    """How latent attention is cut over a region; None where a model has another."""
    if spec.latent is None:
        return None
    return latent_cut(
        rows,
        cols,
        source=spec.latent.q_rank or spec.hidden_size,
        latent=spec.latent.kv_rank,
        hidden=spec.hidden_size,
        heads=spec.head_count,
        nope=spec.latent.nope_size,
        rope=spec.latent.rope_size,
        value=spec.latent.value_size,
    )


def latent_tiles(op: Op, cut: Shard) -> list[LatentTile]:
    """The tiles of one op of latent attention."""
    assert cut.latent is not None
    source, latent, hidden, rotated = (
        (index, ROWS) for index in (cut.latent.source, cut.latent.latent, cut.latent.hidden, cut.heads.features)
    )
    nope, rope, value = ((index, COLUMNS) for index in (cut.latent.nope, cut.latent.rope, cut.latent.value))
    match op.kind:
        case "latent_compress":
            inners = (source, rotated, latent)[-len(op.weights) :]
            return [LatentTile(op.weights, (cut.hidden, COLUMNS), inners)]
        case "latent_norm":
            indices = (source, latent)[-len(op.weights) :]
            return [LatentTile((gain,), None, (index,)) for gain, index in zip(op.weights, indices, strict=True)]
        case "latent_query":
            q_nope, q_rope, k_b = op.weights
            return [
                LatentTile((q_nope, q_rope), source, (nope, rope)),
                LatentTile((k_b,), nope, (latent,), transposed=False),
            ]
        case "latent_output":
            v_b, o = op.weights
            return [LatentTile((v_b,), latent, (value,)), LatentTile((o,), value, (hidden,))]
        case "latent_attention":
            return []
        case _:
            message = f"no tiles are known for ops of kind {op.kind}"
            raise WseBug(message)


def tables(cut: Shard, stage: int) -> list[SymTile]:
    """The tables of ordinals that a stage's kernels read, float32; none without latent attention."""
    if cut.latent is None:
        return []
    return [
        _table(stage, HEADS, cut.latent.heads, COLUMNS, cut),
        _table(stage, FIRST, cut.latent.first_rotated, COLUMNS, cut),
        _table(stage, WANTED, cut.heads.features, ROWS, cut),
    ]


def _table(stage: int, name: str, index: I32, axis: int, cut: Shard) -> SymTile:
    part = TilePart(tensor=ORDINALS, outer=None, outer_axis=ROWS, inner=index, inner_axis=axis, transposed=False)
    width = index.shape[1]
    tile = Tile(stage=stage, name=name, address=-1, view="f32", outer=1, inner=width, parts=(part,))
    buffer = SymBuffer(stage=stage, name=name, use="weights", view="f32", elements=width, kept=True)
    return SymTile(buffer=buffer, tile=tile, real_elements=tile.real_elements(cut.rows, cut.cols))
