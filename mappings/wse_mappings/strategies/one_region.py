"""Strategies with one region per wafer: region, tensor and expert."""

from __future__ import annotations

from collections.abc import Sequence

from wse_mappings.regions.consecutive import consecutive
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.strategy import Strategy


class Region(Strategy):
    """Mapping strategy that distributes layers across wafers in order, with one region per wafer.

    The layers of a wafer run sequentially on all PEs of its region (a rectangle of PEs).
    """

    name = "region"
    summary = "All layers of a wafer time-share one rectangle of PEs; every op is distributed over all of it."
    source = "He et al., WaferLLM, OSDI 2025, arXiv 2502.04563"
    regions = "one"


REGION = Region()


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


TENSOR = Tensor()


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


EXPERT = Expert()
