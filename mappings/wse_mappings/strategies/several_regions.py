"""Strategies with several regions per wafer, through which a token passes in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.cuts.expert_groups import GROUPED
from wse_mappings.mesh.placement import even_bands
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.rounding import ceil_div
from wse_mappings.strategies.strategy import Strategy

MAX_STAGES = 16
"""Maximum number of regions per wafer to try if their shape is not specified."""


class Pipeline(Strategy):
    """Mapping strategy that stores consecutive layers on consecutive regions and wafers.

    A region is a rectangle of PEs. A token passes through the regions in order.
    """

    name = "pipeline"
    summary = "Consecutive layers on adjacent rectangles of PEs of a wafer, and on consecutive wafers."
    source = (
        "layer pipelines between wafers: Cerebras Inference launch, August 2024; "
        "regions within a wafer: He et al., WaferLLM, OSDI 2025"
    )
    regions = "several"

    def layouts(self, demand: Demand, other_strategies: Sequence[Strategy]) -> Iterable[Layout]:
        """Return layouts with various numbers of regions per wafer, starting with two if possible.

        Regions are placed side by side in bands (strips of rows), so that they use as many PEs as
        possible. A wafer has at most as many regions as layers. If the request lists regions, there
        is exactly one layout.
        """
        if demand.listed:
            return [Layout(self.name, 1, 1, demand.listed_transposed)]
        per_wafer = demand.layers // demand.wafers
        if demand.region is not None:
            rows, cols = demand.region
            max_bands, max_per_band = demand.mesh_rows // rows, demand.mesh_cols // cols
            max_regions = min(per_wafer, max_bands * max_per_band)
            return [
                Layout(self.name, ceil_div(count, max_per_band), max_per_band)
                for count in range(min(2, max_regions), max_regions + 1)
            ]
        max_regions = min(per_wafer, demand.mesh_rows * demand.mesh_cols, MAX_STAGES)
        counts = range(min(2, max_regions), max_regions + 1)
        cuts = dict.fromkeys(even_bands(demand.mesh_rows, demand.mesh_cols, count) for count in counts)
        return [Layout(self.name, bands, per_band) for bands, per_band in cuts]

    def partition(self, demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return the layers of every region.

        If a mapping file lists the regions, the layers are those that the file assigns to each
        region. Otherwise layers are divided so that the regions have nearly equal numbers of bytes.
        """
        if not demand.listed:
            return super().partition(demand, layout)
        return [
            RegionLayers(
                region.wafer,
                0,
                region.first_layer,
                region.last_layer,
                sum(demand.whole_layer_bytes[region.first_layer : region.last_layer]),
                rect=region.rect,
                first_part=region.first_part,
                last_part=region.last_part,
            )
            for region in demand.listed
        ]


PIPELINE = Pipeline()

MAX_BANDS = 12
"""Maximum number of bands to try.

The number of regions is limited by the number of layers and tables per wafer.
"""


class Bands(Strategy):
    """Mapping strategy that stores consecutive layers on consecutive regions of a wafer.

    A region is a rectangle of PEs. Regions are placed side by side in bands (strips of the mesh). A
    search determines the numbers of regions and of bands.
    """

    name = "bands"
    summary = "Consecutive layers on rectangles of PEs, several side by side in each strip of a wafer, called a band."
    source = "this project's; regions within a wafer: He et al., WaferLLM, OSDI 2025"
    regions = "several"
    expert_placements = (GROUPED,)
    block_parts = (2, 4, 8)

    def layouts(self, demand: Demand, other_strategies: Sequence[Strategy]) -> Iterable[Layout]:
        """Yield a layout for every combination of a band count and a number of regions per band.

        A band is a strip of rows with regions side by side. Unless the mesh is square, the
        combinations for the transposed mesh follow.
        """
        max_regions = 0 if demand.region is not None else ceil_div(demand.layers + 2, demand.wafers)
        is_square = demand.mesh_rows == demand.mesh_cols
        for is_transposed in (False,) if is_square else (False, True):
            rows, cols = demand.mesh(is_transposed=is_transposed)
            for bands in range(1, min(MAX_BANDS, max_regions, rows) + 1):
                for per_band in range(1, min(ceil_div(max_regions, bands), cols) + 1):
                    yield Layout(self.name, bands, per_band, is_transposed)


BANDS = Bands()
