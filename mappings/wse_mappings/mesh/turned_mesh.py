"""A mesh on live PEs with rows and columns in each other's place."""

from __future__ import annotations

from functools import cached_property

from wse_mappings.mesh.logical_mesh import I32, I64, LogicalMesh
from wse_mappings.mesh.placement import Rect


class TurnedMesh:
    """What a Program sees of a ``LogicalMesh`` whose rows it counts as columns; the fabric is turned with it.

    North and west change places, and south and east.
    """

    def __init__(self, mesh: LogicalMesh) -> None:
        self.mesh = mesh

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, cols = self.mesh.shape
        return cols, rows

    @cached_property
    def hops(self) -> tuple[I32, I32]:
        """As those of the mesh."""
        along_rows, along_columns = self.mesh.hops
        return along_columns.T, along_rows.T

    @cached_property
    def hops_before(self) -> tuple[I32, I32]:
        """As those of the mesh."""
        along_rows, along_columns = self.mesh.hops_before
        return along_columns.T, along_rows.T

    def streams(self, axis: int, rect: Rect) -> int:
        """As those of the mesh."""
        return self.mesh.streams(1 - axis, Rect(rect.col, rect.row, rect.cols, rect.rows))

    def physical_words(self, words: I64) -> I64:
        """As those of the mesh."""
        return turned_words(self.mesh.physical_words(turned_words(words)))


def turned_words(words: I64) -> I64:
    """Words by direction and place ``[4, rows, cols]``, the directions north, east, south, west, turned."""
    return words[::-1].transpose(0, 2, 1)
