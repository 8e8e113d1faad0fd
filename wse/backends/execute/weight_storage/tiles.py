"""Shards of a weight tile: which values of a tensor each PE stores."""

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
from wse_mappings.patterns.rings import skew
from wse_mappings.rounding import ceil_div

Tensor = npt.NDArray[np.generic]
VALUES_PER_READ: Final = 1 << 21
"""Number of values of a tensor that are read at a time, if they are for different PEs."""
VALUES_IN_FLIGHT: Final = 8 * VALUES_PER_READ
"""Maximum number of values that all threads together read and keep in memory, 4 bytes each."""


class Source(Protocol):
    """Protocol for tensors whose rows can be read in ranges, such as numpy arrays."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor. The first axis is the row axis."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """Return a range of rows."""


@runtime_checkable
class DecodedSource(Protocol):
    """Protocol for tensors that may have to decode more values than the rows to be read.

    An example is a transposed matrix, of which all values must be decoded to read a single row.
    """

    @property
    def is_read_whole(self) -> bool:
        """True if the whole tensor must be decoded to read any rows, as for transposed matrices."""

    def decoded_values(self, first: int, last: int) -> int:
        """Return how many values are in memory at once, at most, while some rows are read.

        Args:
            first, last: First row to read and one past the last row.
        """


def decoded_values(source: Source, first: int, last: int) -> int:
    """Return how many values are in memory at once, at most, while rows of a source are read.

    Args:
        source: Tensor whose rows are read.
        first, last: First row and one past the last row.
    """
    if isinstance(source, DecodedSource):
        return source.decoded_values(first, last)
    return (last - first) * math.prod(source.shape[1:])


def is_read_whole(source: Source) -> bool:
    """Return True if reading any row decodes the whole tensor, so it is best read only once."""
    return isinstance(source, DecodedSource) and source.is_read_whole


@dataclass(frozen=True, slots=True)
class Patch:
    """Rectangle of PEs in a region, given by ranges of rows and columns with exclusive ends."""

    first_row: int
    last_row: int
    first_col: int
    last_col: int


def patches(parts: Sequence[TilePart], sources: Sequence[Source], rows: int, cols: int) -> list[Patch]:
    """Divide the PEs of a region into rectangles (patches) that each need few tensor rows.

    Patches limit the size of the tensor rows in memory. They are chosen so that each tensor row is
    read only about once. The whole region is one patch if the tensors are small or if no such
    division exists.

    Args:
        parts: Parts of a tile (block of weights on a PE), each from one tensor.
        sources: The tensor of each part.
        rows, cols: Shape of the region.
    """
    whole_region = Patch(0, rows, 0, cols)
    axes = {_row_axis(part) for part in parts}
    values = max(math.prod(source.shape) for source in sources)
    count = ceil_div(values, VALUES_PER_READ)
    if count == 1 or len(axes) > 1 or axes == {SKEWED} or any(map(is_read_whole, sources)):
        return [whole_region]
    cuts_columns = axes == {ROWS}
    cut_patches = [
        Patch(0, rows, *cut) if cuts_columns else Patch(*cut, 0, cols)
        for cut in _cuts(cols if cuts_columns else rows, count)
    ]
    read_rows = sum(last - first for patch in cut_patches for first, last in [row_range(parts[0], patch)])
    return cut_patches if read_rows <= 2 * sources[0].shape[0] else [whole_region]


def strips(part: TilePart, patch: Patch) -> list[Patch]:
    """Divide a patch (a rectangle of PEs) by rows if its index arrays would need too much memory.

    This is only needed if the tensor indices vary along both rows and columns.

    Args:
        part: Part of a tile, with the tensor indices that each PE stores.
        patch: The PEs.
    """
    is_skewed = part.outer is not None and part.outer_axis == SKEWED
    if part.sharers == 1 and part.offset is None and not is_skewed:
        return [patch]
    rows = patch.last_row - patch.first_row
    outers = 1 if part.outer is None else part.outer.shape[1]
    indices = rows * (patch.last_col - patch.first_col) * max(part.width, outers)
    return [
        replace(patch, first_row=patch.first_row + first, last_row=patch.first_row + last)
        for first, last in _cuts(rows, ceil_div(indices, VALUES_PER_READ))
    ]


def _cuts(length: int, count: int) -> list[tuple[int, int]]:
    """Divide a length into about ``count`` intervals and return their (first, end) indices."""
    step = max(1, ceil_div(length, max(1, count)))
    return [(begin, min(begin + step, length)) for begin in range(0, length, step)]


def split_by_offset(part: TilePart) -> list[TilePart]:
    """Split a part of a tile into parts that store one copy of their tensor indices each.

    A tile is the block of weights on a PE. If a part has ``offset``, a PE stores several copies of
    the part's inner tensor indices (usually columns), and a different offset is added to each copy.
    Each resulting part has one copy with its offset. A part without offsets is returned unchanged.
    """
    if part.offset is None:
        return [part]
    return [replace(part, offset=part.offset[:, at : at + 1]) for at in range(part.offset.shape[1])]


def row_range(part: TilePart, patch: Patch) -> tuple[int, int]:
    """Return the first tensor row that the PEs of a patch store, and one past the last.

    Args:
        part: Part of a tile, with the tensor indices that each PE stores.
        patch: Rectangle of PEs.
    """
    if part.transposed or part.outer is None:
        index = _inner_of_patch(part, patch)
    else:
        index = _index_of_patch(part.outer, part.outer_axis, patch)
    valid_index = index[index >= 0]
    return (int(valid_index.min()), int(valid_index.max()) + 1) if valid_index.size else (0, 0)


def inner_places(parts: Sequence[TilePart], blocks: int) -> list[I32]:
    """Return, for each part of a tile, where its elements are stored in a row of the tile.

    A tile is the block of weights on one PE, and a part contains its values of one tensor. A row of
    the tile consists of ``blocks`` equal blocks. In each block, the elements of the first part are
    followed by those of the second part, and so on.

    Args:
        parts: Parts of the tile.
        blocks: Number of blocks in a row.
    """
    widths = [part.width // blocks for part in parts]
    first = [sum(widths[:i]) for i in range(len(parts))]
    return [
        (np.arange(blocks)[:, None] * sum(widths) + at + np.arange(width)).reshape(-1).astype(np.int32)
        for at, width in zip(first, widths, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchShard:
    """Tensor values that each PE of a patch (a rectangle of PEs) stores.

    The fields are arguments of the kernels in `wse_kernels.compute.storing`.

    Attributes:
        patch: The PEs.
        rows, columns: Indices into the values that were read.
        row_places, column_places: Positions in the tile of a PE; a value is stored at their sum.
        row_shifts, column_shifts: Number of bits by which a code is shifted left in its byte, if
            several codes share a byte. The two shifts are added.
    """

    patch: Patch
    rows: I32
    columns: I32
    row_places: I32
    column_places: I32
    row_shifts: I32
    column_shifts: I32


def patch_shard(part: TilePart, first: int, patch: Patch, tile: Tile, places: I32) -> PatchShard:
    """Return which tensor values each PE of a patch stores for one part of its tile.

    Args:
        part: Part of the tile, with the tensor indices that each PE stores.
        first: Index of the first tensor row that was read. A vector counts as a matrix with one
            column.
        patch: Rectangle of PEs.
        tile: The tile (block of weights on a PE).
        places: Positions of the part's inner elements in a row of the tile, from `inner_places`.
    """
    width = sum(tile_part.width for tile_part in tile.parts)
    sharing = 8 // CODINGS[tile.coding].bits if tile.coding else 1  # codes in a byte
    inner_index = _by_lane(_inner_of_patch(part, patch))
    outer_index = np.zeros((1, 1, 1), np.int32)
    if part.outer is not None:
        outer_index = _by_lane(_index_of_patch(part.outer, part.outer_axis, patch))
    numbers = np.arange(outer_index.shape[1], dtype=np.int32)
    sides = [
        (outer_index, numbers // sharing * np.int32(width), numbers % sharing * np.int32(8 // sharing)),
        (inner_index, places, np.zeros_like(places)),
    ]
    by_row, by_column = sides[::-1] if part.transposed or part.outer is None else sides
    return PatchShard(
        patch=patch,
        rows=np.where(by_row[0] >= 0, by_row[0] - np.int32(first), np.int32(-1)),
        columns=by_column[0],
        row_places=by_row[1],
        column_places=by_column[1],
        row_shifts=by_row[2],
        column_shifts=by_column[2],
    )


def _by_lane(index: I32) -> I32:
    """Transpose an index array ``[rows or 1, cols or 1, n]`` to ``[rows or 1, n, cols or 1]``.

    The last axis becomes the columns of PEs, because kernels process the same element of all
    columns together.
    """
    return np.ascontiguousarray(index.transpose(0, 2, 1), np.int32)


def _index_of_patch(index: I32, axis: int, patch: Patch) -> I32:
    """Return the tensor indices that the PEs of a patch (a rectangle of PEs) store.

    Args:
        index: Indices of every PE along an axis.
        axis: ROWS, COLUMNS, or SKEWED if the indices vary along both.
        patch: The PEs.

    Returns:
        ``[rows or 1, cols or 1, n]``. A dimension has size 1 if the indices do not vary along it.
    """
    cols = slice(patch.first_col, patch.last_col)
    if axis == ROWS:
        return index[None, cols]
    rows = range(patch.first_row, patch.last_row)
    if axis == COLUMNS:
        return index[rows.start : rows.stop, None]
    return np.stack([index[skew(row, len(index))[cols]] for row in rows])


def _inner_of_patch(part: TilePart, patch: Patch) -> I32:
    """Return the inner tensor indices (usually columns) that each PE of a rectangle of PEs stores.

    If the part has an offset, it is added to the indices. If several PEs share a list of indices,
    the list is divided among them.
    """
    if part.sharers > 1:
        return _divided_among_sharers(part, patch)
    index = _index_of_patch(part.inner, part.inner_axis, patch)
    if part.offset is None:
        return index
    offset = part.offset[None, patch.first_col : patch.last_col]
    return np.where((index >= 0) & (offset >= 0), index + offset, np.int32(-1))


def _divided_among_sharers(part: TilePart, patch: Patch) -> I32:
    """Divide lists of inner tensor indices among the PEs that share them.

    The PEs that share a list are neighbours in a row or column. For example, if 4 PEs share 10
    indices, three PEs store 3 indices each, and the last PE stores 1 index and 2 elements of
    padding.

    Returns:
        The inner indices of each PE of the patch, int32 ``[rows, cols, n]``, with -1 for padding.
    """
    width, lanes = part.width, len(part.inner)
    padded = np.full((lanes, part.sharers * width), -1, np.int32)
    padded[:, : part.inner.shape[1]] = part.inner
    blocks = padded.reshape(lanes, part.sharers, width)
    by_row_and_col = blocks.transpose(1, 0, 2) if part.inner_axis == ROWS else blocks
    return by_row_and_col[patch.first_row : patch.last_row, patch.first_col : patch.last_col]


def _row_axis(part: TilePart) -> int:
    """Return the mesh axis along which PEs store different rows of a tensor.

    It is ROWS, COLUMNS, or SKEWED if the rows vary along both axes.
    """
    return part.inner_axis if part.transposed or part.outer is None else part.outer_axis
