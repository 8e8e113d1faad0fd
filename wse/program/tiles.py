"""Tiles: blocks of tensors that PEs store, and the tensor index of each of their elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import I32
from wse.number_formats import CODINGS
from wse_mappings.rounding import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TilePart:
    """Elements of one tensor that form a part of a tile, for every PE of a region.

    A tile is the block of weights that a PE stores. Element (a, b) at PE (i, j) is
    ``tensor[outer[a], inner[b]]``, or ``tensor[inner[b], outer[a]]`` if ``transposed``. An index of
    -1 is padding with the value 0. Index arrays have the shape ``[rows or cols, n]``: one list of
    indices for each PE along a mesh axis.

    Attributes:
        tensor: Name of the tensor.
        outer: Outer indices; None if the tensor is a vector.
        outer_axis: Mesh axis along which the outer indices vary, or SKEWED for indices that vary
            along both.
        inner: Inner indices.
        inner_axis: Mesh axis along which the inner indices vary.
        transposed: Whether the tensor has its dimensions in the opposite order.
        offset: ``[cols, n]``, for inner indices that vary over rows. The inner indices are repeated
            n times side by side, and the k-th copy is increased by ``offset[col, k]``. With an
            offset of -1, the copy is padding.
        sharers: Number of consecutive PEs, along the axis other than ``inner_axis``, that divide
            the inner elements among them. Each PE stores an equal block; the last ones may store
            fewer elements or none.
    """

    tensor: str
    outer: I32 | None
    outer_axis: int
    inner: I32
    inner_axis: int
    transposed: bool
    offset: I32 | None = None
    sharers: int = 1

    @property
    def width(self) -> int:
        """Number of elements that this tensor contributes to each row of a PE's weight block."""
        index_count = int(self.inner.shape[1]) * (1 if self.offset is None else int(self.offset.shape[1]))
        return ceil_div(index_count, self.sharers)

    def real_elements(self, rows: int, cols: int) -> int:
        """Return how many elements of this tensor all PEs of a region store, excluding padding.

        Args:
            rows, cols: Rows and columns of the region.
        """
        positions = (cols, rows)  # PEs along each mesh axis: a row has `cols` PEs, a column has `rows`
        inner_count = np.count_nonzero(self.inner >= 0)
        if self.offset is not None:
            outer_by_column = 1 if self.outer is None else np.count_nonzero(self.outer >= 0, axis=1)
            return int(inner_count * (np.count_nonzero(self.offset >= 0, axis=1) * outer_by_column).sum())
        outer_count = positions[1 - self.inner_axis] if self.outer is None else np.count_nonzero(self.outer >= 0)
        return int(inner_count * outer_count) // self.sharers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tile:
    """Block of weights that every PE of a stage stores: ``[outer, inner]`` elements, row-major.

    A stage is a part of the model, stored on one region of PEs. The block has the same shape and
    address on all of its PEs, but usually different values.

    Attributes:
        stage: Index of the stage.
        name: Name of the tile.
        address: SRAM address, counted in elements of ``view``.
        view: Name of the SRAM view, which determines the element type.
        outer, inner: Numbers of rows and columns of the block.
        parts: Tensors from which the values are taken, side by side along ``inner``.
        coding: Storage format of quantised weights; empty if elements are stored as they are. Codes
            that share a byte are neighbours in a column, with the first one in the low bits.
        blocks: If more than 1, every part is divided into this many equal blocks. Block 0 of every
            part is stored first, side by side, then block 1 of every part, and so on.
    """

    stage: int
    name: str
    address: int
    view: str
    outer: int
    inner: int
    parts: tuple[TilePart, ...]
    coding: str = ""
    blocks: int = 1

    @property
    def elements(self) -> int:
        """Number of elements of the block in the type of ``view``.

        Quantised weights are counted in bytes, because several may share a byte.
        """
        return CODINGS[self.coding].code_bytes(self.outer, self.inner) if self.coding else self.outer * self.inner

    def real_elements(self, rows: int, cols: int) -> int:
        """Return how many weights the tiles of all PEs of a region contain, excluding padding.

        Args:
            rows, cols: Rows and columns of the region.
        """
        return sum(part.real_elements(rows, cols) for part in self.parts)
