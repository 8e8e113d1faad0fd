"""The expert strategy: one region per wafer, and the experts of all layers on all wafers."""

from __future__ import annotations

from collections.abc import Sequence

from wse_mappings.regions.consecutive import consecutive
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.strategy import Strategy


class Expert(Strategy):
    """Mapping strategy that distributes layers across wafers in order, and experts over all wafers.

    All experts of a mixture-of-experts model are stored separately from their layers.
    """

    name = "expert"
    summary = (
        "Layers on consecutive wafers; their experts are distributed over all wafers and receive tokens from there."
    )
    source = (
        "Lepikhin et al., GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding, "
        "arXiv 2006.16668"
    )
    regions = "experts"
    experts_apart = True

    def partition(self, demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return the layers of each region without their experts, then one region with all experts.

        The last region spans all wafers. On a single wafer, layers are placed together with their
        experts instead.
        """
        if demand.wafers == 1:
            return super().partition(demand, layout)
        experts = RegionLayers(
            0, 0, demand.layers, demand.layers, sum(demand.expert_bytes), wafers=demand.wafers, experts=True
        )
        return [*consecutive(demand, layout, demand.layer_bytes), experts]


STRATEGY = Expert()
