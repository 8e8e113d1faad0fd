"""One region a wafer: its layers take turns on all of its PEs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.strategies.consecutive import consecutive
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy


class Region(Strategy):
    """Consecutive layers on consecutive wafers, each of which is one region."""

    name = "region"
    summary = "All layers of a wafer time-share one region; every op is spread over the whole of it."
    source = "He et al., WaferLLM, OSDI 2025, arXiv 2502.04563"
    regions = "one"

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """One region of the whole mesh."""
        return [Layout(self.name, 1, 1)]

    def partition(self, demand: Demand, layout: Layout) -> Sequence[Share]:
        """Layers with their experts, in order."""
        return consecutive(demand, layout, demand.whole_layer_bytes)


STRATEGY = Region()
