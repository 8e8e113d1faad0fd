"""The auto strategy: the best of all others, and of cuts of a wafer that none of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.k_tree import EQUAL_GROUPS
from wse_mappings.strategies.strategy import Demand, Layout, Strategy

MOST_BANDS = 12
"""Bands that are tried, and as many regions in a band as there are layers."""


class Auto(Strategy):
    """The choice of a search."""

    name = "auto"
    summary = (
        "The fastest of all mappings for the request, and of every cut of a wafer into bands of regions, turned or not."
    )
    source = "this project's search: layouts tried in small, the best compiled whole"
    regions = "searched"
    tries_others = True
    group_counts = (EQUAL_GROUPS, 4, 8, 16, 32)

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """The layouts of all other strategies that differ, and every cut that none of them has."""
        of_others = [
            layout for strategy in others if strategy.differs(demand) for layout in strategy.layouts(demand, ())
        ]
        known_layouts = {layout._replace(mapping=self.name) for layout in of_others}
        return [*of_others, *(layout for layout in self._cuts(demand) if layout not in known_layouts)]

    def _cuts(self, demand: Demand) -> Iterator[Layout]:
        """Every number of bands and of regions in one, as the mesh lies and turned; none of a stated shape."""
        if demand.region is not None:
            return
        most = ceil_div(demand.layers + 2, demand.wafers)
        for turned in (False, True):
            rows, cols = demand.mesh(turned=turned)
            for bands in range(1, min(MOST_BANDS, most, rows) + 1):
                for per_band in range(1, min(ceil_div(most, bands), cols) + 1):
                    yield Layout(self.name, bands, per_band, turned)


STRATEGY = Auto()
