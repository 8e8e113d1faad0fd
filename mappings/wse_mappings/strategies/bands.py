"""The bands strategy: all divisions of a wafer into bands of regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div
from wse_mappings.strategies.strategy import Strategy

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


STRATEGY = Bands()
