"""The tensor strategy: one region that spans all wafers, over which every op is split."""

from __future__ import annotations

from collections.abc import Sequence

from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.strategy import Strategy


class Tensor(Strategy):
    """Mapping strategy that distributes every op across all wafers (tensor parallelism).

    There is a single region, which stores all layers and spans all wafers.
    """

    name = "tensor"
    summary = "Every op is split over all wafers, which exchange partial sums over their links twice per layer."
    source = (
        "Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, "
        "arXiv 1909.08053"
    )
    regions = "span"
    spans_wafers = True

    def partition(self, demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return a single region that spans all wafers and stores all layers and tables."""
        tables = (demand.embedding_bytes or 0.0) + (demand.head_bytes or 0.0)
        return [RegionLayers(0, 0, 0, demand.layers, sum(demand.whole_layer_bytes) + tables, demand.wafers)]


STRATEGY = Tensor()
