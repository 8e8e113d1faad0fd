"""Mapping strategies by name: the bundled ones, and those of packages of users."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from wse.errors import UnknownName
from wse.known_names import known_name
from wse.plugins import STRATEGIES, with_plugins
from wse_mappings.strategies.catalogue import bundled_strategies
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy


@cache
def strategies() -> Mapping[str, Strategy]:
    """Strategies by name, the bundled ones first.

    Raises:
        BadInput: a package brings one that cannot be used.
    """
    return with_plugins(STRATEGIES, bundled_strategies(), _names)


def strategy(name: str, *, where: str = "") -> Strategy:
    """The strategy of a name, without regard to case; packages of users are asked for names that are not bundled.

    Raises:
        UnknownName: there is none; ``where`` the name was given.
        BadInput: a package brings one that cannot be used.
    """
    bundled = bundled_strategies()
    if name in bundled:
        return bundled[name]
    known = known_name(name, strategies())
    if known is None:
        raise UnknownName("mapping", name, strategies(), where=where)
    return strategies()[known]


@lru_cache(maxsize=1024)  # a search cuts one layout for several meshes and requests
def shares_of(demand: Demand, layout: Layout) -> tuple[Share, ...]:
    """The layers of every region of a layout, as its strategy divides them. Errors as of `strategy`."""
    return tuple(strategy(layout.mapping).partition(demand, layout))


def _names(thing: Any) -> tuple[str]:
    """The name of a strategy. Raises AttributeError or TypeError for what is none."""
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
