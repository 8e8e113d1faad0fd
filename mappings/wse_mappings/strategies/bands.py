"""The bands strategy: every cut of a wafer into bands of regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.cuts.split import ceil_div
from wse_mappings.strategies.strategy import Demand, Layout, Strategy

MOST_BANDS = 12
"""Bands that are tried, and as many regions in a band as there are layers."""


class Bands(Strategy):
    """Consecutive layers on consecutive regions, in the fastest number of bands and regions per band."""

    name = "bands"
    summary = "Layers on consecutive regions of a wafer, in the fastest number of bands and of regions, turned or not."
    source = "this project's; regions within a wafer: He et al., WaferLLM, OSDI 2025"
    regions = "several"

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """Yield every number of bands and of regions per band, on the mesh as it is and transposed.

        A square mesh is not turned: the layouts would be the same.
        """
        most = 0 if demand.region is not None else ceil_div(demand.layers + 2, demand.wafers)
        is_square = demand.mesh_rows == demand.mesh_cols
        for turned in (False,) if is_square else (False, True):
            rows, cols = demand.mesh(turned=turned)
            for bands in range(1, min(MOST_BANDS, most, rows) + 1):
                for per_band in range(1, min(ceil_div(most, bands), cols) + 1):
                    yield Layout(self.name, bands, per_band, turned)


STRATEGY = Bands()
