"""The shares of a weight tile: which values of a tensor each PE of a mesh row holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from wse.program import COLUMNS, I32, ROWS, SKEWED, TilePart
from wse_mappings.ring import skew

Tensor = npt.NDArray[np.generic]
STRETCH_VALUES: Final = 1 << 22
"""Values of a tensor that are read at a time, where the PEs that hold them can be told apart."""


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


def patches(parts: Sequence[TilePart], sources: Sequence[Source], rows: int, cols: int) -> Iterator[Patch]:
    """The PEs of a region in patches whose shares come from few rows of the tensors, so that these are read once."""
    whole = Patch(0, rows, 0, cols)
    axes = {_row_axis(part) for part in parts}
    values = max(int(np.prod(source.shape)) for source in sources)
    count = -(-values // STRETCH_VALUES)
    if count == 1 or len(axes) > 1 or axes == {SKEWED}:
        return iter((whole,))
    across = axes == {ROWS}
    length = cols if across else rows
    step = -(-length // count)
    cuts = [(begin, min(begin + step, length)) for begin in range(0, length, step)]
    found = [Patch(0, rows, *cut) if across else Patch(*cut, 0, cols) for cut in cuts]
    read = sum(last - first for patch in found for first, last in [row_range(parts[0], patch)])
    return iter(found if read <= 2 * sources[0].shape[0] else (whole,))


def row_range(part: TilePart, patch: Patch) -> tuple[int, int]:
    """First and one past the last row of the tensor that the PEs of a patch hold."""
    index, axis = _row_index(part), _row_axis(part)
    if part.offset is not None:
        places = part.offset[patch.first_col : patch.last_col]
        index = (index[patch.first_row : patch.last_row, :, None] + places[places >= 0])[
            index[patch.first_row : patch.last_row] >= 0
        ]
    elif axis == ROWS:
        index = index[patch.first_col : patch.last_col]
    elif axis == COLUMNS:
        index = index[patch.first_row : patch.last_row]
    held = index[index >= 0]
    return (int(held.min()), int(held.max()) + 1) if held.size else (0, 0)


def share(part: TilePart, values: Tensor, first: int, row: int, patch: Patch) -> Tensor:
    """``[cols, outer, inner]`` of one mesh row of a patch, zeros where the indices say padding.

    ``values`` are the rows of the tensor from ``first`` on. The result may be a view of them.
    """
    cols = slice(patch.first_col, patch.last_col)
    inner = part.inner[cols] if part.inner_axis == ROWS else part.inner[row][None]
    width = patch.last_col - patch.first_col
    if part.offset is not None:
        inner = _moved(inner, part.offset[cols])
    if part.outer is None:
        picked = _picked(values[None], np.zeros((1, 1), np.int32), inner - first * (inner >= 0), width)
        return picked.reshape(width, 1, -1)
    if part.outer_axis == SKEWED:
        outer = part.outer[skew(row, len(part.outer))[cols]]
    else:
        outer = part.outer[cols] if part.outer_axis == ROWS else part.outer[row][None]
    if part.transposed:
        return _picked(values.T, outer, inner - first * (inner >= 0), width)
    return _picked(values, outer - first * (outer >= 0), inner, width)


def _moved(inner: I32, offset: I32) -> I32:
    """``[1 or cols, n]``: inner indices ``[1, n]`` with the offsets of their columns."""
    places = offset[:1] if (offset == offset[0]).all() else offset
    return np.where((inner >= 0) & (places[:, None] >= 0), inner + places[:, None], np.int32(-1))


def _picked(source: Tensor, outer: I32, inner: I32, cols: int) -> Tensor:
    """``[cols, outer, inner]`` of ``source[outer, inner]``; an index of length 1 counts for all columns."""
    size = (cols, outer.shape[1], inner.shape[1])
    if min(source.shape) == 0:
        return np.zeros(size, source.dtype)
    if len(inner) == 1 and len(outer) > 1:
        narrow = _taken(source, inner[0], axis=1)
        picked = _taken(narrow, outer.reshape(-1), axis=0).reshape(size)
    elif len(outer) == 1:
        narrow = _taken(source, outer[0], axis=0)
        flat = _taken(narrow, inner.reshape(-1), axis=1).reshape(size[1], len(inner), size[2])
        picked = np.broadcast_to(flat.swapaxes(0, 1), size)
    else:
        picked = source[np.maximum(outer, 0)[:, :, None], np.maximum(inner, 0)[:, None, :]]
    if (outer < 0).any() or (inner < 0).any():
        real = (outer >= 0)[:, :, None] & (inner >= 0)[:, None, :]
        picked = np.where(real, picked, picked.dtype.type(0))
    return picked


def _taken(source: Tensor, index: I32, axis: int) -> Tensor:
    """``source`` at the indices along an axis: a view where they follow each other; anything where one is negative."""
    first = int(index[0]) if len(index) else 0
    if first >= 0 and len(index) and np.array_equal(index, np.arange(first, first + len(index))):
        return source[first : first + len(index)] if axis == 0 else source[:, first : first + len(index)]
    return np.take(source, index, axis=axis, mode="clip")


def _row_index(part: TilePart) -> I32:
    return part.inner if part.transposed or part.outer is None else part.outer


def _row_axis(part: TilePart) -> int:
    return part.inner_axis if part.transposed or part.outer is None else part.outer_axis
