"""The shares of trained vectors (biases, gains of heads, sinks) that each PE holds: cut as what they work on.

A vector that goes with outputs cut over columns is the same in all rows, and serves every phase. One that goes with the
hidden vector is cut over rows, as decode has it, or over columns, as the mesh does.
"""

from __future__ import annotations

from wse.compiler.state import Shard
from wse.errors import WseBug
from wse.models.graph import Op
from wse.models.spec import ModelSpec
from wse.program.program import Tile, TilePart
from wse.program.steps import I32, ROWS


def column_vectors(op: Op, cut: Shard, spec: ModelSpec, stage: int) -> list[Tile]:
    """The vectors of an op that are cut over columns whatever the phase."""
    return [
        _tile([(name, _over_columns(name, cut, spec)) for name in group], stage, ROWS)
        for group in op.vectors
        if not _is_hidden(group[0])
    ]


def hidden_vectors(op: Op, cut: Shard, stage: int, axis: int) -> list[Tile]:
    """The vectors of an op that are cut as the hidden vector, their index varying along ``axis``."""
    return [_tile([(name, cut.hidden) for name in group], stage, axis) for group in op.vectors if _is_hidden(group[0])]


def _is_hidden(name: str) -> bool:
    return name.endswith(("norm_bias", ".o_bias", ".down_bias"))


def _over_columns(name: str, cut: Shard, spec: ModelSpec) -> I32:
    """Which elements of a vector each column holds."""
    match name.rpartition(".")[2]:
        case "q_bias":
            return cut.heads.rows(spec.head_size, spec.queries_per_kv)
        case "k_bias" | "v_bias":
            return cut.heads.rows(spec.head_size, 1)
        case "q_norm" | "k_norm":
            return cut.heads.features
        case "sinks":
            return cut.heads.query_heads(spec.queries_per_kv)
        case "gate_bias" | "up_bias":
            return cut.shared if ".shared." in name else cut.ffn
        case "q_a_bias" if cut.latent is not None:
            return cut.latent.source
        case "k_rope_bias":
            return cut.heads.features
        case "kv_a_bias" if cut.latent is not None:
            return cut.latent.latent
    message = f"no cut is known for {name}"
    raise WseBug(message)


def _tile(parts: list[tuple[str, I32]], stage: int, axis: int) -> Tile:
    return Tile(
        stage=stage,
        name="+".join(name for name, _ in parts),
        address=-1,
        view="wgt",
        outer=1,
        inner=sum(index.shape[1] for _, index in parts),
        parts=tuple(
            TilePart(tensor=name, outer=None, outer_axis=ROWS, inner=index, inner_axis=axis, transposed=False)
            for name, index in parts
        ),
    )
