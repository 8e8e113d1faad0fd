"""The shares of a weight tile: which values of a tensor each PE holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.program.program import Tile, TilePart
from wse.program.steps import COLUMNS, ROWS, SKEWED
from wse_mappings.mesh.ring import skew

Tensor = npt.NDArray[np.generic]
STRETCH_VALUES: Final = 1 << 19
"""Values of a tensor that are read at a time, where the PEs that hold them differ."""


class Source(Protocol):
    """A tensor that is read by stretches of its rows; a numpy array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """A stretch of rows."""


@dataclass(frozen=True, slots=True)
class Patch:
    """PEs of a region: mesh rows and columns from the first to one past the last."""

    first_row: int
    last_row: int
    first_col: int
    last_col: int


def patches(parts: Sequence[TilePart], sources: Sequence[Source], rows: int, cols: int) -> list[Patch]:
    """The PEs of a region in patches whose shares come from few rows of the tensors, so that these are read once."""
    whole = Patch(0, rows, 0, cols)
    axes = {_row_axis(part) for part in parts}
    values = max(math.prod(source.shape) for source in sources)
    count = -(-values // STRETCH_VALUES)
    if count == 1 or len(axes) > 1 or axes == {SKEWED}:
        return [whole]
    across = axes == {ROWS}
    cut_patches = [
        Patch(0, rows, *cut) if across else Patch(*cut, 0, cols) for cut in _cuts(cols if across else rows, count)
    ]
    read = sum(last - first for patch in cut_patches for first, last in [row_range(parts[0], patch)])
    return cut_patches if read <= 2 * sources[0].shape[0] else [whole]


def strips(patch: Patch, tile: Tile) -> list[Patch]:
    """A patch cut to mesh rows whose shares are no more than can be held at a time."""
    values = tile.outer * tile.inner * (patch.last_col - patch.first_col) * (patch.last_row - patch.first_row)
    cuts = _cuts(patch.last_row - patch.first_row, -(-values // STRETCH_VALUES))
    at = patch.first_row
    return [Patch(at + first, at + last, patch.first_col, patch.last_col) for first, last in cuts]


def _cuts(length: int, count: int) -> list[tuple[int, int]]:
    """First and one past the last of about ``count`` stretches of a length."""
    step = max(1, -(-length // max(1, count)))
    return [(begin, min(begin + step, length)) for begin in range(0, length, step)]


def stretches(part: TilePart) -> list[TilePart]:
    """A part whose inner index comes several times as so many parts, whose rows are read one after another."""
    if part.offset is None:
        return [part]
    return [replace(part, offset=part.offset[:, at : at + 1]) for at in range(part.offset.shape[1])]


def row_range(part: TilePart, patch: Patch) -> tuple[int, int]:
    """First and one past the last row of the tensor that the PEs of a patch hold."""
    if part.transposed or part.outer is None:
        index = _inner_of_patch(part, patch)
    else:
        index = _of_patch(part.outer, part.outer_axis, patch)
    real = index[index >= 0]
    return (int(real.min()), int(real.max()) + 1) if real.size else (0, 0)


def share(part: TilePart, values: Tensor, first: int, patch: Patch) -> Tensor:
    """``[rows, cols, outer, inner]`` of the PEs of a patch, zeros where the indices say padding.

    ``values`` are the rows of the tensor from ``first`` on. The result may be a view of them.
    """
    inner = _inner_of_patch(part, patch)
    size = (patch.last_row - patch.first_row, patch.last_col - patch.first_col)
    if part.outer is None:
        picked = _pick(values[None], np.zeros((1, 1, 1), np.int32), _less(inner, first))
    else:
        outer = _of_patch(part.outer, part.outer_axis, patch)
        if part.transposed:
            picked = _pick(values.T, outer, _less(inner, first))
        else:
            picked = _pick(values, _less(outer, first), inner)
    return np.broadcast_to(picked, (*size, *picked.shape[2:]))


def _of_patch(index: I32, axis: int, patch: Patch) -> I32:
    """``[rows or 1, cols or 1, n]``: the indices of a patch, 1 where they do not vary."""
    cols = slice(patch.first_col, patch.last_col)
    if axis == ROWS:
        return index[None, cols]
    rows = range(patch.first_row, patch.last_row)
    if axis == COLUMNS:
        return index[rows.start : rows.stop, None]
    return np.stack([index[skew(row, len(index))[cols]] for row in rows])


def _inner_of_patch(part: TilePart, patch: Patch) -> I32:
    """`_of_patch` of the inner index, moved by the offset of a part that has one, or shared out."""
    if part.sharers > 1:
        return _shared_out(part, patch)
    inner = _of_patch(part.inner, part.inner_axis, patch)
    if part.offset is None:
        return inner
    moved = part.offset[None, patch.first_col : patch.last_col]
    return np.where((inner >= 0) & (moved >= 0), inner + moved, np.int32(-1))


def _shared_out(part: TilePart, patch: Patch) -> I32:
    """``[rows, cols, n]``: the blocks of the inner index that the PEs of a patch hold, of which each has one."""
    width, lanes = part.width, len(part.inner)
    padded = np.full((lanes, part.sharers * width), -1, np.int32)
    padded[:, : part.inner.shape[1]] = part.inner
    blocks = padded.reshape(lanes, part.sharers, width)
    by_row_and_col = blocks.transpose(1, 0, 2) if part.inner_axis == ROWS else blocks
    return by_row_and_col[patch.first_row : patch.last_row, patch.first_col : patch.last_col]


def _less(index: I32, first: int) -> I32:
    """Indices counted from ``first`` on; those of padding stay negative."""
    return np.where(index >= 0, index - np.int32(first), np.int32(-1))


def _pick(source: Tensor, outer: I32, inner: I32) -> Tensor:
    """``source[outer, inner]`` as ``[rows, cols, outer, inner]``; rows or cols are 1 where neither index varies."""
    if min(source.shape) == 0:
        shape = np.broadcast_shapes(outer.shape[:2], inner.shape[:2])
        return np.zeros((*shape, outer.shape[2], inner.shape[2]), source.dtype)
    if any(min(sizes) > 1 for sizes in zip(outer.shape[:2], inner.shape[:2], strict=True)):
        picked = source[np.maximum(outer, 0)[..., :, None], np.maximum(inner, 0)[..., None, :]]
        real = (outer >= 0)[..., :, None] & (inner >= 0)[..., None, :]
        return picked if real.all() else np.where(real, picked, picked.dtype.type(0))
    flat = _take(_take(source, outer.reshape(-1), axis=0), inner.reshape(-1), axis=1)
    if min(outer.min(initial=0), inner.min(initial=0)) < 0:  # then it is a copy
        flat[outer.reshape(-1) < 0] = 0
        flat[:, inner.reshape(-1) < 0] = 0
    product = flat.reshape(*outer.shape, *inner.shape).transpose(0, 3, 1, 4, 2, 5)
    size = [outer_size * inner_size for outer_size, inner_size in zip(outer.shape[:2], inner.shape[:2], strict=True)]
    return product.reshape(*size, outer.shape[2], inner.shape[2])  # of two factors one is 1: a view


def _take(source: Tensor, index: I32, axis: int) -> Tensor:
    """``source`` at the indices along an axis: a view where they follow each other; anything where one is negative."""
    first = int(index[0]) if len(index) else 0
    if first >= 0 and len(index) and np.array_equal(index, np.arange(first, first + len(index))):
        return source[first : first + len(index)] if axis == 0 else source[:, first : first + len(index)]
    return np.take(source, index, axis=axis, mode="clip")


def _row_axis(part: TilePart) -> int:
    return part.inner_axis if part.transposed or part.outer is None else part.outer_axis
