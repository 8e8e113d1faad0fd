"""The pipeline strategy: several regions a wafer, which layers pass through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.cuts.split import ceil_div
from wse_mappings.mesh.placement import even_bands
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy

MOST_STAGES = 16
"""Regions of a wafer that are tried where their shape is not stated."""


class Pipeline(Strategy):
    """Consecutive layers on consecutive regions of consecutive wafers."""

    name = "pipeline"
    summary = "Layers on consecutive regions of a wafer, and on consecutive wafers; regions in snake order touch."
    source = (
        "layer pipelines between wafers: Cerebras Inference launch, August 2024; "
        "regions within a wafer: He et al., WaferLLM, OSDI 2025"
    )
    regions = "several"

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """Yield layouts with two or more regions, at most one per layer, in bands that use the most PEs.

        Of regions that are listed there is one layout.
        """
        if demand.listed:
            return [Layout(self.name, 1, 1, demand.listed_turned)]
        per_wafer = demand.layers // demand.wafers
        if demand.region is not None:
            rows, cols = demand.region
            down, across = demand.mesh_rows // rows, demand.mesh_cols // cols
            most = min(per_wafer, down * across)
            return [Layout(self.name, ceil_div(count, across), across) for count in range(min(2, most), most + 1)]
        most = min(per_wafer, demand.mesh_rows * demand.mesh_cols, MOST_STAGES)
        counts = range(min(2, most), most + 1)
        cuts = dict.fromkeys(even_bands(demand.mesh_rows, demand.mesh_cols, count) for count in counts)
        return [Layout(self.name, bands, per_band) for bands, per_band in cuts]

    def partition(self, demand: Demand, layout: Layout) -> Sequence[Share]:
        """Return the listed regions, or regions with nearly equal bytes."""
        if not demand.listed:
            return super().partition(demand, layout)
        return [
            Share(
                one.wafer,
                0,
                one.first_layer,
                one.last_layer,
                sum(demand.whole_layer_bytes[one.first_layer : one.last_layer]),
                rect=one.rect,
                first_part=one.first_part,
                last_part=one.last_part,
            )
            for one in demand.listed
        ]


STRATEGY = Pipeline()
