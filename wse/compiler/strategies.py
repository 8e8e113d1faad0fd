"""Mapping strategies by name: bundled strategies, and those in users' packages and files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from wse.compiler.own_strategy import own_strategy
from wse.errors import UnknownName
from wse.known_names import known_name
from wse.plugins import STRATEGIES, names_file_object, object_of_file, refuse_file_alone, with_plugins, wrong_type
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.strategies.catalogue import bundled_strategies
from wse_mappings.strategies.strategy import Strategy


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
    """Return the layers of every region of a layout, as the layout's mapping strategy divides them.

    Args:
        demand: Bytes of the layers, and the wafers on which they are placed.
        layout: The layout, which names its strategy.

    Raises:
        UnknownName, BadInput: The strategy cannot be found or used; see `strategy`.
    """
    layout_strategy: Any = strategy(layout.mapping)
    return demand.cache.of(_checked_regions, 1024)(layout_strategy, demand, layout)


def _checked_regions(layout_strategy: Any, demand: Demand, layout: Layout) -> tuple[RegionLayers, ...]:
    """Return the layers of each region of a layout, as its mapping strategy divides them.

    A strategy from a user's file checks its own result.
    """
    return tuple(layout_strategy.partition(demand, layout))


def _plugin_names(candidate: Any) -> tuple[str]:
    """Check that the object of an entry point is a mapping strategy, and return its name.

    Raises:
        TypeError: The object is not a strategy.
    """
    try:
        return _names(candidate)
    except AttributeError as error:
        expected_type = f"wse_mappings.strategies.strategy.Strategy: it has no attribute {error.name!r}"
        raise wrong_type(candidate, expected_type) from error


def _names(candidate: Any) -> tuple[str]:
    """Check that an object is a mapping strategy, and return its name.

    Raises:
        AttributeError, TypeError: The object is not a strategy.
    """
    for text in (candidate.name, candidate.summary, candidate.source, candidate.regions):
        if not isinstance(text, str):
            message = f"{text!r} is not a string"
            raise TypeError(message)
    for truth in (candidate.spans_wafers, candidate.experts_apart, candidate.tries_others):
        if not isinstance(truth, bool):
            message = f"{truth!r} is not True or False"
            raise TypeError(message)
    if not all(isinstance(groups, int) for groups in candidate.group_counts):
        message = f"{candidate.group_counts!r} are not all integers"
        raise TypeError(message)
    for method in (candidate.layouts, candidate.smaller, candidate.partition, candidate.differs):
        if not callable(method):
            message = f"{method!r} is not a method"
            raise TypeError(message)
    return (candidate.name,)
