"""Weight tiles from parts of tensors, which are partitioned along the axes of a region of PEs.

Matrices are ``[inputs, outputs]``. Inputs and outputs are each divided along one axis of the
region. An axis is ROWS or COLUMNS, as in `wse.program.steps`. Indices ``[cols, n]`` differ from
column to column, so their axis is ROWS: they vary along each row of PEs.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse.arrays import I32
from wse.program.steps import ROWS
from wse.program.tiles import Tile, TilePart

Cut = tuple[I32, int]
"""Indices ``[rows or cols, n]`` and the axis along which they vary, ROWS, COLUMNS or SKEWED."""


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
        outer_cut: How the inputs are partitioned across PEs; None for a vector.
        inner_cut: How the outputs, or the elements of a vector, are partitioned across PEs.
        transposed: Whether the tensor is ``[outputs, inputs]``.
        offset: int32 ``[cols, n]`` if each PE stores n equally divided blocks, such as one per
            expert; otherwise None. It is added to the indices of ``inner_cut`` for each block on
            each column. A block with the offset -1 is padding.
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
        inputs: How the inputs are partitioned across PEs.
        outputs: For each tensor, how its outputs are partitioned across PEs.
        transposed: Whether the tensors are ``[outputs, inputs]``.
    """
    pairs = zip(tensors, outputs, strict=True)
    return tile_of([part_of(tensor, inputs, cut, transposed=transposed) for tensor, cut in pairs])


def vector_tile(tensors: Sequence[str], *cuts: Cut) -> Tile:
    """Return a tile that stores several trained vectors one after another.

    Args:
        tensors: Names of the vectors.
        cuts: For each vector, the elements that PEs store, and the axis along which they vary.
    """
    return tile_of([part_of(tensor, None, cut) for tensor, cut in zip(tensors, cuts, strict=True)])
