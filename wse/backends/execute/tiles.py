"""The shares of a weight tile: which values of a tensor each PE stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.number_formats import CODINGS
from wse.program.steps import COLUMNS, ROWS, SKEWED
from wse.program.tiles import Tile, TilePart
from wse_mappings.mesh.ring import skew

Tensor = npt.NDArray[np.generic]
STRETCH_VALUES: Final = 1 << 21
"""Values of a tensor that are read at a time, where the PEs that hold them differ."""
VALUES_IN_FLIGHT: Final = 8 * STRETCH_VALUES
"""Values of tensors, of 4 bytes at the most, that all threads together read and hold at a time."""


class Source(Protocol):
    """A tensor that is read by stretches of its rows; a numpy array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """Return a stretch of rows."""


@runtime_checkable
class DecodedSource(Protocol):
    """A source that may decode more than the stretch that it gives."""

    @property
    def is_read_whole(self) -> bool:
        """True if all is decoded for any stretch, as of matrices that a file has transposed."""

    def decoded_values(self, first: int, last: int) -> int:
        """The number of values that it makes, and holds at a time, for rows from the first to one past the last."""


def decoded_values(source: Source, first: int, last: int) -> int:
    """Return the number of values that a source makes for rows from the first to one past the last."""
    if isinstance(source, DecodedSource):
        return source.decoded_values(first, last)
    return (last - first) * math.prod(source.shape[1:])


def is_read_whole(source: Source) -> bool:
    """Return whether a source decodes all for any stretch, so that it is better requested all at once."""
    return isinstance(source, DecodedSource) and source.is_read_whole


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
    if count == 1 or len(axes) > 1 or axes == {SKEWED} or any(map(is_read_whole, sources)):
        return [whole]
    across = axes == {ROWS}
    cut_patches = [
        Patch(0, rows, *cut) if across else Patch(*cut, 0, cols) for cut in _cuts(cols if across else rows, count)
    ]
    read = sum(last - first for patch in cut_patches for first, last in [row_range(parts[0], patch)])
    return cut_patches if read <= 2 * sources[0].shape[0] else [whole]


def strips(part: TilePart, patch: Patch) -> list[Patch]:
    """A patch, cut to mesh rows where indices that vary over rows and columns are more than can be held at a time."""
    is_skewed = part.outer is not None and part.outer_axis == SKEWED
    if part.sharers == 1 and part.offset is None and not is_skewed:
        return [patch]
    rows = patch.last_row - patch.first_row
    outers = 1 if part.outer is None else part.outer.shape[1]
    indices = rows * (patch.last_col - patch.first_col) * max(part.width, outers)
    return [
        replace(patch, first_row=patch.first_row + first, last_row=patch.first_row + last)
        for first, last in _cuts(rows, -(-indices // STRETCH_VALUES))
    ]


def _cuts(length: int, count: int) -> list[tuple[int, int]]:
    """First and one past the last of about ``count`` stretches of a length."""
    step = max(1, -(-length // max(1, count)))
    return [(begin, min(begin + step, length)) for begin in range(0, length, step)]


def stretches(part: TilePart) -> list[TilePart]:
    """Return a part whose inner index comes several times as so many parts, whose rows are read one after another."""
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


def inner_places(parts: Sequence[TilePart], blocks: int) -> list[I32]:
    """Return the places in a tile's rows of the inner elements of its parts, which stand side by side in ``blocks``."""
    widths = [part.width // blocks for part in parts]
    first = [sum(widths[:i]) for i in range(len(parts))]
    return [
        (np.arange(blocks)[:, None] * sum(widths) + at + np.arange(width)).reshape(-1).astype(np.int32)
        for at, width in zip(first, widths, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The elements that each PE of a patch takes of some rows of a tensor, as kernels of `wse_kernels.storing` have it.

    ``rows`` and ``columns`` are counted from those of the values; shifts are bits in a byte, of codes that share one.
    """

    patch: Patch
    rows: I32
    columns: I32
    row_places: I32
    column_places: I32
    row_shifts: I32
    column_shifts: I32


def share(part: TilePart, first: int, patch: Patch, tile: Tile, places: I32) -> Share:
    """The share of the PEs of a patch in the tensor's rows from ``first`` on, those of a vector having one column.

    ``places`` are those of the part's inner elements in a row of the tile.
    """
    width = sum(other.width for other in tile.parts)
    sharing = 8 // CODINGS[tile.coding].bits if tile.coding else 1  # codes in a byte
    inner = _by_lane(_inner_of_patch(part, patch))
    outer = np.zeros((1, 1, 1), np.int32)
    if part.outer is not None:
        outer = _by_lane(_of_patch(part.outer, part.outer_axis, patch))
    numbers = np.arange(outer.shape[1], dtype=np.int32)
    sides = [
        (outer, numbers // sharing * np.int32(width), numbers % sharing * np.int32(8 // sharing)),
        (inner, places, np.zeros_like(places)),
    ]
    by_row, by_column = sides[::-1] if part.transposed or part.outer is None else sides
    return Share(
        patch=patch,
        rows=_shift_indices(by_row[0], first),
        columns=by_column[0],
        row_places=by_row[1],
        column_places=by_column[1],
        row_shifts=by_row[2],
        column_shifts=by_column[2],
    )


def _by_lane(index: I32) -> I32:
    """``[rows or 1, n, cols or 1]`` of an index ``[rows or 1, cols or 1, n]``."""
    return np.ascontiguousarray(index.transpose(0, 2, 1), np.int32)


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


def _shift_indices(index: I32, first: int) -> I32:
    """Return the indices counted from ``first`` on; those of padding stay negative."""
    return np.where(index >= 0, index - np.int32(first), np.int32(-1))


def _row_axis(part: TilePart) -> int:
    return part.inner_axis if part.transposed or part.outer is None else part.outer_axis
