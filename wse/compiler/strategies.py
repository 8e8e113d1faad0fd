"""Mapping strategies by name: the bundled ones, and those of packages of users."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from wse.compiler.own_strategy import own_strategy
from wse.errors import UnknownName
from wse.known_names import known_name
from wse.plugins import STRATEGIES, names_file_object, object_of_file, refuse_file_alone, with_plugins
from wse_mappings.strategies.catalogue import bundled_strategies
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy


@cache
def strategies() -> Mapping[str, Strategy]:
    """Return the mapping strategies by name, the bundled ones first.

    Raises:
        BadInput: a package brings one that cannot be used.
    """
    return with_plugins(STRATEGIES, bundled_strategies(), _names)


def strategy(name: str, *, where: str = "") -> Strategy:
    """Return a strategy by its name, ignoring case, or from ``FILE.py:NAME``.

    Names that are not bundled are searched in packages of users.

    Raises:
        UnknownName: there is none; ``where`` the name was given.
        BadInput: a package or a file brings one that cannot be used.
    """
    if names_file_object(name):
        return _of_file(name)
    bundled = bundled_strategies()
    if name in bundled:
        return bundled[name]
    known = known_name(name, strategies())
    if known is None:
        refuse_file_alone(name, where)
        raise UnknownName("mapping", name, strategies(), where=where)
    return strategies()[known]


def _of_file(named: str) -> Strategy:
    """Return the strategy of a file, the same object as long as the file does not change."""
    thing = object_of_file(named)
    if _own.get(named, (None, None))[0] is not thing:
        _own[named] = thing, own_strategy(named, thing, _names)
    return _own[named][1]


_own: Final[dict[str, tuple[Any, Strategy]]] = {}
"""By name: the object in the user's file, and the strategy made of it."""


def shares_of(demand: Demand, layout: Layout) -> tuple[Share, ...]:
    """Return the layers of every region of a layout, as its strategy divides them.

    Errors are those of `strategy`.
    """
    chosen: Any = strategy(layout.mapping)
    return demand.cache.of(_shares, 1024)(chosen, demand, layout)


def _shares(chosen: Any, demand: Demand, layout: Layout) -> tuple[Share, ...]:
    return tuple(chosen.partition(demand, layout))


def _names(thing: Any) -> tuple[str]:
    """Return the name of a strategy.

    Raises AttributeError or TypeError for an object that is none.
    """
    for text in (thing.name, thing.summary, thing.source, thing.regions):
        if not isinstance(text, str):
            message = f"{text!r} is not a text"
            raise TypeError(message)
    for truth in (thing.spans_wafers, thing.experts_apart, thing.tries_others):
        if not isinstance(truth, bool):
            message = f"{truth!r} is not True or False"
            raise TypeError(message)
    if not all(isinstance(groups, int) for groups in thing.group_counts):
        message = f"{thing.group_counts!r} are not whole numbers"
        raise TypeError(message)
    for method in (thing.layouts, thing.smaller, thing.partition, thing.differs):
        if not callable(method):
            message = f"{method!r} is not a method"
            raise TypeError(message)
    return (thing.name,)
