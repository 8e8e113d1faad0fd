"""Tiles: the blocks of tensors that PEs store, and where their elements stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import I32
from wse.number_formats import CODINGS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TilePart:
    """The source of a stretch of a tile's values.

    The value of element (a, b) at PE (i, j) is ``tensor[outer[a], inner[b]]``, swapped when ``transposed``; an index
    of -1 is padding and gives 0. Indices are ``[rows or cols, n]``: they vary over the mesh axis that is named, the
    outer one also over both, SKEWED. Without ``outer`` the tensor is a vector. With ``offset`` ``[cols, n]`` the inner
    index, which then varies over rows, comes n times side by side, with that much added; -1 makes padding of it.
    Where it has ``sharers``, the PEs along the other axis than the inner index's, one after another, hold equal blocks
    of the inner elements, the last ones maybe fewer or none.
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
        """Inner elements on a PE."""
        held = int(self.inner.shape[1]) * (1 if self.offset is None else int(self.offset.shape[1]))
        return -(-held // self.sharers)

    def real_elements(self, rows: int, cols: int) -> int:
        """Elements on all PEs of a region of that shape that are no padding."""
        places = (cols, rows)  # that an index stands at, by the axis that it varies along
        inner = np.count_nonzero(self.inner >= 0)
        if self.offset is not None:
            of_column = 1 if self.outer is None else np.count_nonzero(self.outer >= 0, axis=1)
            return int(inner * (np.count_nonzero(self.offset >= 0, axis=1) * of_column).sum())
        outer = places[1 - self.inner_axis] if self.outer is None else np.count_nonzero(self.outer >= 0)
        return int(inner * outer) // self.sharers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tile:
    """A weight tile that every PE of a stage stores: ``[outer, inner]`` elements of ``view``, row-major.

    With a ``coding`` they are codes, and those that share a byte are neighbours in a column, the first in its low bits.
    Parts stand side by side; where there are several ``blocks``, the first of as many equal blocks of every part come
    first, side by side, then the second ones.
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
        """Elements of ``view`` that it takes."""
        return CODINGS[self.coding].code_bytes(self.outer, self.inner) if self.coding else self.outer * self.inner

    def real_elements(self, rows: int, cols: int) -> int:
        """Elements on all PEs of a region of that shape that are no padding."""
        return sum(part.real_elements(rows, cols) for part in self.parts)
