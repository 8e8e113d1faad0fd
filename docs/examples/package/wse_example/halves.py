"""Halves: each wafer is two regions, one below the other, and layers pass through both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.strategy import Strategy


class Halves(Strategy):
    """Consecutive layers on the upper and the lower half of consecutive wafers."""

    name = "halves"
    summary = "Each wafer is two regions, one below the other, and layers pass through both."
    source = "an example"
    regions = "two"

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """Return the only layout: two bands with one region each."""
        return [Layout(self.name, bands=2, per_band=1)]


STRATEGY = Halves()
