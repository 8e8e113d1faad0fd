"""Mapping strategies by name: bundled strategies, and those in users' packages and files.

If ``layouts`` or ``partition`` of a strategy in a user's file raises an error or returns an
unusable value, a one-line error message names the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput, UnknownName, WseError
from wse.known_names import known_name
from wse.plugins import (
    STRATEGIES,
    fault_in_file,
    names_file_object,
    object_of_file,
    refuse_file_alone,
    with_plugins,
    wrong_type,
)
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.catalogue import bundled_strategies
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
        raise BadInput(f"{strategy_name}: not a mapping strategy: {error}; {REMEDY}") from error
    layouts, partition = strategy_copy.layouts, strategy_copy.partition

    def checked_layouts(demand: Demand, other_strategies: Sequence[Strategy]) -> list[Layout]:
        """Return the layouts that a user's strategy proposes, after checking them.

        A layout is one way to divide wafers into regions.

        Raises:
            BadInput: An item is not a layout, or it belongs to a different strategy. Only a
                strategy that tries others (``tries_others``) may return their layouts.
        """
        layouts_made: list[Layout] = _call(path, strategy_name, lambda: list(layouts(demand, other_strategies)))
        for layout in layouts_made:
            if not isinstance(layout, Layout) or (layout.mapping != strategy_name and not strategy_copy.tries_others):
                fault = f"layouts: {layout!r} is none of its own: give Layout(self.name, ...)"
                raise BadInput(f"{strategy_name}: {fault}; {REMEDY}")
        return layouts_made

    def checked_partition(demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return the layers of each region after checking that all are placed once and in order.

        Raises:
            BadInput: A layer is missing, placed twice, or out of order.
        """
        region_layers: list[RegionLayers] = _call(path, strategy_name, lambda: list(partition(demand, layout)))
        fault = _fault_of_regions(demand, region_layers)
        if fault:
            raise BadInput(f"{strategy_name}: partition: {fault}; {REMEDY}")
        return region_layers

    strategy_copy.layouts, strategy_copy.partition = checked_layouts, checked_partition
    strategy: Strategy = strategy_copy
    return strategy


def _call(path: Path, strategy_name: str, method: Callable[[], Any]) -> Any:
    """Call a method of a user's strategy and convert its errors to BadInput.

    Args:
        path: File that defines the strategy.
        strategy_name: ``FILE.py:NAME``, for the error message.
        method: The method, without parameters.

    Raises:
        BadInput: The method raised an error that is not one of wse's own errors.
    """
    try:
        return method()
    except WseError:
        raise
    except Exception as error:
        raise BadInput(f"{strategy_name}: {fault_in_file(error, path)}") from error


def _fault_of_regions(demand: Demand, region_layers: Iterable[RegionLayers]) -> str:
    """Return an error message if a strategy's regions omit or repeat layers; "" if they are valid.

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
        if region.first_layer != layer:
            return f"region {index} begins with layer {region.first_layer}, where layer {layer} is next"
        if region.first_part != part:
            return f"region {index} begins with part {region.first_part} of layer {layer}, where part {part} is next"
        layer, part = region.layers.next
    return "" if (layer, part) == (demand.layers, 0) else f"its regions end before layer {layer}, of {demand.layers}"


@cache
def strategies() -> Mapping[str, Strategy]:
    """Return all mapping strategies by name: bundled strategies, then those in users' packages.

    Raises:
        BadInput: A strategy in a package is unusable.
    """
    return with_plugins(STRATEGIES, bundled_strategies(), _plugin_names)


def strategy(name: str, *, place: str = "") -> Strategy:
    """Return the mapping strategy with a given name.

    Args:
        name: Name of a strategy that is bundled or in a user's package (case-insensitive), or
            ``FILE.py:NAME``.
        place: Where the name was specified, for the error message.

    Raises:
        UnknownName: There is no such strategy.
        BadInput: The strategy in a package or file is unusable.
    """
    if names_file_object(name):
        return _file_strategy(name)
    bundled = bundled_strategies()
    if name in bundled:
        return bundled[name]
    known_strategy_name = known_name(name, strategies())
    if known_strategy_name is None:
        refuse_file_alone(name, place)
        raise UnknownName("mapping", name, strategies(), place=place)
    return strategies()[known_strategy_name]


def _file_strategy(strategy_name: str) -> Strategy:
    """Return the mapping strategy that a user's file defines (``FILE.py:NAME``).

    The same object is returned until the file changes.
    """
    definition = object_of_file(strategy_name)
    if _strategies_of_files.get(strategy_name, (None, None))[0] is not definition:
        _strategies_of_files[strategy_name] = definition, own_strategy(strategy_name, definition, _names)
    return _strategies_of_files[strategy_name][1]


_strategies_of_files: Final[dict[str, tuple[Any, Strategy]]] = {}
"""For each ``FILE.py:NAME``, the object in the user's file and the strategy created from it."""


def layers_of_regions(demand: Demand, layout: Layout) -> tuple[RegionLayers, ...]:
    """Return the layers that a layout's mapping strategy places in each region.

    Args:
        demand: Bytes of the layers, and the wafers on which they are placed.
        layout: The layout, which names its strategy.

    Raises:
        UnknownName, BadInput: The strategy cannot be found or used; see `strategy`.
    """
    layout_strategy: Any = strategy(layout.mapping)
    return demand.cache.of(_checked_regions, 1024)(layout_strategy, demand, layout)


def _checked_regions(layout_strategy: Any, demand: Demand, layout: Layout) -> tuple[RegionLayers, ...]:
    """Return the layers that a mapping strategy places in each region of a layout.

    The result is not checked here. For a strategy from a user's file, ``partition`` is already
    wrapped by a check (`own_strategy`).
    """
    return tuple(layout_strategy.partition(demand, layout))


def _plugin_names(candidate: Any) -> tuple[str]:
    """Check that an installed package's object is a mapping strategy; return its name as a tuple.

    Raises:
        TypeError: The object is not a strategy. If an attribute is missing, the message names it
            and the expected class.
    """
    try:
        return _names(candidate)
    except AttributeError as error:
        expected_type = f"wse_mappings.strategies.strategy.Strategy: it has no attribute {error.name!r}"
        raise wrong_type(candidate, expected_type) from error


def _names(candidate: Any) -> tuple[str]:
    """Check that an object is a mapping strategy, and return its name as a tuple.

    Raises:
        AttributeError, TypeError: The object is not a strategy.
    """
    for text in (candidate.name, candidate.summary, candidate.source, candidate.regions):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is not a string")
    for flag in (candidate.spans_wafers, candidate.experts_apart, candidate.tries_others):
        if not isinstance(flag, bool):
            raise TypeError(f"{flag!r} is not True or False")
    for choices in (candidate.expert_placements, candidate.block_parts):
        if not isinstance(choices, tuple):
            raise TypeError(f"{choices!r} is not a tuple")
    if not all(isinstance(groups, int) for groups in candidate.group_counts):
        raise TypeError(f"{candidate.group_counts!r} are not all integers")
    for method in (candidate.layouts, candidate.smaller, candidate.partition, candidate.differs):
        if not callable(method):
            raise TypeError(f"{method!r} is not a method")
    return (candidate.name,)
