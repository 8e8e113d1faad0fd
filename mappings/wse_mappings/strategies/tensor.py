"""One region that spans all wafers: every op is split over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.strategies.consecutive import whole
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy


class Tensor(Strategy):
    """All layers in one region on all wafers."""

    name = "tensor"
    summary = "Every op is split over all wafers, whose partial sums are exchanged over their links twice a layer."
    source = (
        "Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, "
        "arXiv 1909.08053"
    )
    regions = "span"
    spans_wafers = True

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """One region of the whole mesh of every wafer."""
        return [Layout(self.name, 1, 1)]

    def partition(self, demand: Demand, layout: Layout) -> Sequence[Share]:
        """All layers in one share."""
        return [whole(demand, demand.whole_layer_bytes, demand.wafers)]


STRATEGY = Tensor()
