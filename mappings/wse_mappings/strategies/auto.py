"""The auto strategy: the best of all other strategies, on all or part of each wafer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wse_mappings.patterns.k_tree import EQUAL_GROUPS
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.several_regions import Bands
from wse_mappings.strategies.strategy import Strategy


class Auto(Strategy):
    """Mapping strategy that tries the layouts of all other strategies and chooses the fastest one.

    A layout divides each wafer's mesh into regions, which store consecutive layers.
    """

    name = "auto"
    summary = "The fastest of all mappings for the request, on all of each wafer or on a part of it."
    source = "this project's search: layouts compiled on a reduced model, the best fully compiled"
    regions = "searched"
    tries_others = True
    group_counts = (EQUAL_GROUPS,)
    expert_placements, block_parts = Bands.expert_placements, Bands.block_parts

    def layouts(self, demand: Demand, other_strategies: Sequence[Strategy]) -> Iterable[Layout]:
        """Return the layouts of all other strategies, without duplicates.

        Strategies that are not useful for the request are omitted, such as strategies that
        distribute every op across several wafers if there is only one wafer.
        """
        layouts: dict[Layout, Layout] = {}
        for strategy in other_strategies:
            spans_all = strategy.spans_wafers or strategy.experts_apart
            for layout in strategy.layouts(demand, ()) if strategy.differs(demand) else ():
                layouts.setdefault(layout if spans_all else layout._replace(mapping=self.name), layout)
        return list(layouts.values())

    def smaller(self, demand: Demand, layout: Layout, steps: int) -> Iterable[Layout]:
        """Yield copies of a layout with smaller regions in which the model's bytes may still fit.

        Regions have fewer rows, fewer columns, or fewer of both. About ``steps`` numbers are tried
        per factor of two: the integers nearest to powers of the ``steps``-th root of two. If the
        layout is transposed, sizes that also fit on the mesh without transposition are omitted.
        """
        if demand.region is not None or demand.as_released:
            return
        rows, cols = layout.region(demand)
        min_pes = _wafer_bytes(demand) / demand.pe_bytes / (layout.bands * layout.per_band)
        row_counts, col_counts = (rows, *_sides(rows, steps)), (cols, *_sides(cols, steps))
        for row_count in row_counts:
            for col_count in col_counts:
                mesh = row_count * layout.bands, col_count * layout.per_band
                if row_count * col_count < min_pes:
                    break
                fits_untransposed = mesh[0] <= demand.mesh_rows and mesh[1] <= demand.mesh_cols
                if (row_count, col_count) != (rows, cols) and not (layout.is_transposed and fits_untransposed):
                    yield layout._replace(mesh=mesh)


def _wafer_bytes(demand: Demand) -> float:
    """Return the bytes per wafer when weights and cache are divided equally over all wafers."""
    tables = (demand.embedding_bytes or 0.0) + (demand.head_bytes or 0.0)
    return (sum(demand.whole_layer_bytes) + tables) / demand.wafers


def _sides(limit: int, steps: int) -> tuple[int, ...]:
    """Return the side lengths below ``limit`` that a search tries, in descending order.

    These are the integers nearest to powers of the ``steps``-th root of two.
    """
    exponents = range(steps * limit.bit_length(), -1, -1)
    return tuple(dict.fromkeys(side for n in exponents if (side := round(2 ** (n / steps))) < limit))


STRATEGY = Auto()
