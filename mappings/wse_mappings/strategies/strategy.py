"""Interface of a mapping strategy: how layers are distributed across wafers and their regions.

A strategy is an object. Those in the files of this folder are found automatically. Other packages
add strategies by entry points of the group ``wse.mappings``. The compiler asks the strategy and
never tests its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from wse_mappings.regions.consecutive import consecutive
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers


class Strategy(Protocol):
    """Mapping strategy: a rule for distributing a model's layers over wafers and regions of PEs.

    A strategy says which layouts are possible, and how each layout divides the layers.

    Attributes:
        name: Value of ``--mapping`` that selects the strategy.
        summary: One sentence that says what the strategy does.
        source: Origin of the strategy, with a reference.
        regions: Word that describes its regions in the output of ``wse mappings --json``.
        spans_wafers: Whether every op is distributed across all wafers, so that any number of
            wafers can be used.
        experts_apart: Whether experts are distributed across all wafers, separately from their
            layers. The model must then have experts.
        tries_others: Whether the strategy also tries the layouts of all other strategies.
        group_counts: Numbers of groups in the all-reduces of decode that a search tries on its
            fastest layout.
        expert_placements: Placements of experts that a search tries if the model does not fit with
            each expert distributed across all columns and no placement was requested.
        block_parts: Numbers of parts of feed-forward blocks (`Layout.block_parts`) that a search
            tries, smallest first, if the model does not fit in whole layers.
    """

    name: str
    summary: str
    source: str
    regions: str
    spans_wafers: bool = False
    experts_apart: bool = False
    tries_others: bool = False
    group_counts: tuple[int, ...] = ()
    expert_placements: tuple[str, ...] = ()
    block_parts: tuple[int, ...] = ()

    def differs(self, demand: Demand) -> bool:
        """Return whether the strategy is worth trying for a request.

        It is not if simpler strategies give the same layouts. The result is therefore False for a
        strategy that distributes ops or experts across wafers if there is only one wafer, and for a
        strategy that places experts separately if the model has none. The strategy ``auto``, which
        tries all other strategies, skips such strategies.
        """
        if self.experts_apart and not demand.experts:
            return False
        return demand.wafers > 1 or not (self.spans_wafers or self.experts_apart)

    def layouts(self, demand: Demand, other_strategies: Sequence[Strategy]) -> Iterable[Layout]:
        """Return the possible layouts for a request, beginning with the fewest regions.

        A layout divides each wafer's mesh into regions. By default, there is one layout, with one
        region per wafer that uses the whole mesh.

        Args:
            demand: The model's layers and the wafers on which to place them.
            other_strategies: All other strategies if this strategy tries their layouts, else empty.
        """
        return [Layout(self.name, 1, 1)]

    def smaller(self, demand: Demand, layout: Layout, steps: int) -> Iterable[Layout]:
        """Return copies of a layout with smaller regions, for a search that tries them too.

        By default, a strategy has no such layouts, and the result is empty.

        Args:
            demand: The model's layers and the wafers on which to place them.
            layout: Layout whose regions are made smaller.
            steps: Number of side lengths to try per factor of two, such as 1 for 32, 16, 8 and so
                on.
        """
        return ()

    def partition(self, demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Distribute layers across the regions of a layout, and return the layers of every region.

        The first region also stores the embedding table. The last region stores the output head,
        unless the head uses the embedding table. By default, `consecutive` distributes the layers,
        together with their experts.

        Args:
            demand: The model's layers and the wafers on which to place them.
            layout: Numbers of regions and bands into which each wafer's mesh is divided.
        """
        return consecutive(demand, layout, demand.whole_layer_bytes)
