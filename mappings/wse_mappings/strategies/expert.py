"""One region a wafer, and the experts of all layers on all wafers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.strategies.consecutive import consecutive
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy


class Expert(Strategy):
    """Consecutive layers on consecutive wafers, their experts apart from them."""

    name = "expert"
    summary = (
        "Layers on consecutive wafers but for their experts, which are spread over all wafers and sent to from there."
    )
    source = (
        "Lepikhin et al., GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding, "
        "arXiv 2006.16668"
    )
    regions = "experts"
    experts_apart = True

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """One region of the whole mesh."""
        return [Layout(self.name, 1, 1)]

    def partition(self, demand: Demand, layout: Layout) -> Sequence[Share]:
        """Layers without their experts, in order, and a share of all experts; on one wafer all are together."""
        if demand.wafers == 1:
            return consecutive(demand, layout, demand.whole_layer_bytes)
        experts = Share(
            0, 0, demand.layers, demand.layers, sum(demand.expert_bytes), wafers=demand.wafers, experts=True
        )
        return [*consecutive(demand, layout, demand.layer_bytes), experts]


STRATEGY = Expert()
