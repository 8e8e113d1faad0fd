"""The tiles of a mixture's ops: the router's, and those of the experts that a column holds."""

from __future__ import annotations

import numpy as np

from wse.compiler.state import Shard
from wse.models.graph import Op
from wse.models.spec import ModelSpec
from wse.program.program import Tile, TilePart
from wse.program.steps import COLUMNS, I32, ROWS
from wse_mappings.cuts.expert_groups import ExpertGroups


def expert_tiles(spec: ModelSpec, op: Op, cut: Shard, stage: int) -> list[Tile]:
    """Tiles of an op of kind ``router``, ``experts`` or ``experts_down``: its matrices, then its vectors.

    The correction of scores is float32 on every PE; what down adds is on one column of each group alone, since the
    columns of all groups are summed.
    """
    by_row = (cut.hidden, COLUMNS)
    if op.kind == "router":
        parts = [_part(name, by_row, cut.router, ROWS) for name in op.weights]
        return [_tile(parts, stage, cut.d), *(_router_vector(name, cut, stage) for (name,) in op.vectors)]
    groups = cut.experts
    assert groups is not None
    if op.kind == "experts":
        vectors = [_tile([_part(name, None, groups.rows, ROWS) for name in group], stage, 1) for group in op.vectors]
        return [_tile([_part(name, by_row, groups.rows, ROWS) for name in op.weights], stage, cut.d), *vectors]
    matrix = _down(op.weights[0], groups, cut, spec.hidden_size, vector=False)
    vectors = [_tile([_down(name, groups, cut, spec.hidden_size, vector=True)], stage, 1) for (name,) in op.vectors]
    return [_tile([matrix], stage, groups.features_per_expert), *vectors]


def _router_vector(name: str, cut: Shard, stage: int) -> Tile:
    if not name.endswith("router_correction"):
        return _tile([_part(name, None, cut.router, ROWS)], stage, 1)
    everywhere = np.tile(np.arange((cut.router >= 0).sum(), dtype=np.int32), (cut.cols, 1))
    return _tile([_part(name, None, everywhere, ROWS)], stage, 1, view="f32")


def _down(name: str, groups: ExpertGroups, cut: Shard, hidden_size: int, *, vector: bool) -> TilePart:
    """[features, experts held x hidden]; a vector [experts held x hidden]."""
    adds = np.isin(np.arange(cut.cols), [first for first, _ in groups.segments])
    real = (groups.experts >= 0) & (adds[:, None] | (not vector))
    offset = np.where(real, groups.experts * np.int32(hidden_size), np.int32(-1))
    return _part(name, None if vector else (groups.features, ROWS), cut.hidden, COLUMNS, offset)


def _part(
    tensor: str, outer: tuple[I32, int] | None, inner: I32, inner_axis: int, offset: I32 | None = None
) -> TilePart:
    return TilePart(
        tensor=tensor,
        outer=None if outer is None else outer[0],
        outer_axis=ROWS if outer is None else outer[1],
        inner=inner,
        inner_axis=inner_axis,
        transposed=outer is not None,
        offset=offset,
    )


def _tile(parts: list[TilePart], stage: int, outer: int, view: str = "wgt") -> Tile:
    return Tile(
        stage=stage,
        name="+".join(dict.fromkeys(part.tensor for part in parts)),
        address=-1,
        view=view,
        outer=outer,
        inner=sum(part.width for part in parts),
        parts=tuple(parts),
    )
