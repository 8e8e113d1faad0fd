"""A mapping strategy from a user's file, named ``FILE.py:NAME``.

If a method of the strategy raises an error or returns an unusable value, a one-line error message
names the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wse.errors import BadInput, WseError
from wse.plugins import fault_in_file
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.strategy import Strategy

REMEDY = "see docs/adding/strategy.md, and mend the file"


def own_strategy(strategy_name: str, definition: Any, check: Callable[[Any], object]) -> Strategy:
    """Return the mapping strategy defined in a user's file, with checks around its methods.

    Args:
        strategy_name: ``FILE.py:NAME``.
        definition: The object with this name in the file: a strategy, or a class that can be
            instantiated without arguments.
        check: Function that raises TypeError or AttributeError if an object is not a strategy.

    Raises:
        BadInput: The object is not a strategy.
    """
    path = Path(strategy_name.rpartition(":")[0])
    try:
        strategy_copy = copy.copy(definition() if isinstance(definition, type) else definition)
        check(strategy_copy)
        strategy_copy.name = strategy_name
    except (TypeError, AttributeError) as error:
        message = f"{strategy_name}: not a mapping strategy: {error}; {REMEDY}"
        raise BadInput(message) from error
    layouts, partition = strategy_copy.layouts, strategy_copy.partition

    def checked_layouts(demand: Demand, other_strategies: Sequence[Strategy]) -> list[Layout]:
        """Return the layouts of the user's strategy after checking that it may propose them.

        Raises:
            BadInput: An item is not a layout, or it belongs to a different strategy. Only a
                strategy that tries others (``tries_others``) may return their layouts.
        """
        layouts_made: list[Layout] = _call(path, strategy_name, lambda: list(layouts(demand, other_strategies)))
        for layout in layouts_made:
            if not isinstance(layout, Layout) or (layout.mapping != strategy_name and not strategy_copy.tries_others):
                fault = f"layouts: {layout!r} is none of its own: give Layout(self.name, ...)"
                message = f"{strategy_name}: {fault}; {REMEDY}"
                raise BadInput(message)
        return layouts_made

    def checked_partition(demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return the layers of each region after checking that all layers are placed in order.

        Raises:
            BadInput: A layer is missing, placed twice, or out of order.
        """
        region_layers: list[RegionLayers] = _call(path, strategy_name, lambda: list(partition(demand, layout)))
        fault = _fault_of_regions(demand, region_layers)
        if fault:
            message = f"{strategy_name}: partition: {fault}; {REMEDY}"
            raise BadInput(message)
        return region_layers

    strategy_copy.layouts, strategy_copy.partition = checked_layouts, checked_partition
    strategy: Strategy = strategy_copy
    return strategy


def _call(path: Path, strategy_name: str, method: Callable[[], Any]) -> Any:
    """Call a method of a user's strategy and convert its errors to BadInput."""
    try:
        return method()
    except WseError:
        raise
    except Exception as error:
        message = f"{strategy_name}: {fault_in_file(error, path)}"
        raise BadInput(message) from error


def _fault_of_regions(demand: Demand, region_layers: Iterable[RegionLayers]) -> str:
    """Return a text describing the first error in a list of regions; "" if there is none.

    A region is a rectangle of PEs that stores consecutive layers. Every region must start where the
    preceding region ends, and the last region must end with the last layer. Regions that store the
    experts of all layers are ignored.
    """
    layer, part = 0, 0
    for index, region in enumerate(region_layers):
        if not isinstance(region, RegionLayers):
            return f"region {index} is an object of type {type(region).__name__}, not a RegionLayers"
        if region.experts:
            continue
        if (region.first_layer, region.first_part) != (layer, part):
            return f"region {index} begins with layer {region.first_layer}, where layer {layer} is next"
        layer, part = region.layers.next
    return "" if (layer, part) == (demand.layers, 0) else f"its regions end before layer {layer}, of {demand.layers}"
