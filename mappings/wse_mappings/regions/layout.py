"""A division of the meshes of wafers into regions, and the layers of each region."""

from __future__ import annotations

from typing import NamedTuple

from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.demand import Demand


class Layout(NamedTuple):
    """One way to divide each wafer's mesh into regions, which a search may try.

    A region is a rectangle of PEs that stores some layers. A band is a strip of mesh rows with
    regions side by side.

    Attributes:
        mapping: Name of the strategy.
        bands: Number of bands, one below the other.
        per_band: Maximum number of regions side by side in a band.
        is_transposed: Whether rows and columns of the mesh are exchanged first.
        groups: Number of groups per line in the all-reduces of decode, a value of ``--groups``;
            None for the number that the user requested.
        mesh: Rows and columns of the part of each wafer's mesh that is used, beginning with its
            first PE; None for the whole mesh.
        experts: Placement of experts, a value of ``--experts``; None for the requested placement.
        block_parts: Number of parts into which feed-forward blocks are divided. Regions may begin
            and end between two parts, and between attention and the block. 0 if layers are not
            split.
    """

    mapping: str
    bands: int
    per_band: int
    is_transposed: bool = False
    groups: int | None = None
    mesh: tuple[int, int] | None = None
    experts: str | None = None
    block_parts: int = 0

    @property
    def without_sizes(self) -> Layout:
        """Copy of this layout with only its mapping, its regions, and the division of layers.

        The copy has the same numbers of bands, of regions per band, and of parts of feed-forward
        blocks. All other fields have their default values: the whole mesh is used without
        transposition, and the user's options determine the groups and the placement of experts.
        """
        return Layout(self.mapping, self.bands, self.per_band, block_parts=self.block_parts)

    def region(self, demand: Demand) -> tuple[int, int]:
        """Return the rows and columns of a region, assuming that all regions have the same size.

        If a mapping file lists the regions, return the smallest number of rows and the smallest
        number of columns of any region.
        """
        if demand.listed:
            return min(listed_region.rect.rows for listed_region in demand.listed), min(
                listed_region.rect.cols for listed_region in demand.listed
            )
        rows, cols = self.mesh or demand.mesh(is_transposed=self.is_transposed)
        return demand.region or (rows // self.bands, cols // self.per_band)

    def has_equal_squares(self, demand: Demand) -> bool:
        """Return whether all regions are equal squares, assuming an even division of the mesh."""
        shapes = [(listed_region.rect.rows, listed_region.rect.cols) for listed_region in demand.listed]
        return all(rows == cols == self.region(demand)[0] for rows, cols in shapes or [self.region(demand)])


class RegionLayers(NamedTuple):
    """The layers that one region (a rectangle of PEs) stores.

    Attributes:
        wafer: Index of the wafer, or of the first wafer if the region spans several.
        band: Index of the band on the wafer. A band is a strip of the mesh with regions side by
            side.
        first_layer, last_layer: First layer, and index after the last layer.
        bytes: Bytes of weights and cache. The rows of a wafer are divided between its bands, and
            the columns of a band between its regions, in proportion to these bytes.
        wafers: Number of wafers that the region spans.
        experts: Whether the region stores the experts of all layers. It then uses the same PEs as
            the first region of each wafer. Such a region is the last one and stores no layers.
        rect: PEs of the region if the request lists them; None if the region is part of a band.
        first_part, last_part: First part of the first layer, and index after the last part of the
            last layer.
    """

    wafer: int
    band: int
    first_layer: int
    last_layer: int
    bytes: float
    wafers: int = 1
    experts: bool = False
    rect: Rect | None = None
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Layers that the region stores. The first and the last one may be incomplete."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)
