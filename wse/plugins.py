"""Plugins of users' packages, found by entry points: patterns, mapping strategies, model families.

A package names its objects in its own ``pyproject.toml``, under the group of their kind::

    [project.entry-points."wse.mappings"]
    halves = "my_package.halves:STRATEGY"

Entry points are read when a name is asked for that is not bundled, or when all names are: a command that needs none of
them does not look. What is bundled cannot be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from wse.errors import BadInput

PATTERNS: Final = "wse.patterns"
STRATEGIES: Final = "wse.mappings"
FAMILIES: Final = "wse.families"

Thing = TypeVar("Thing")


@cache
def plugins(group: str) -> tuple[tuple[str, Any], ...]:
    """(where it comes from, object) of every entry point of a group, by name of the entry point.

    Raises:
        BadInput: one cannot be loaded.
    """
    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    return tuple((_place(point), _load(point)) for point in points)


def with_plugins(group: str, bundled: Mapping[str, Thing], names: Callable[[Any], Iterable[str]]) -> dict[str, Thing]:
    """The ``bundled`` objects and those of the entry points of a group, by name.

    Args:
        group: The group of the entry points.
        bundled: Objects that need no entry point.
        names: The names that an object of an entry point is known by; raises TypeError or AttributeError for one that
            is not of the kind that the group is for.

    Raises:
        BadInput: an entry point cannot be loaded, has another kind of object, or one of a name that is taken.
    """
    objects, places = dict(bundled), dict.fromkeys(bundled, "wse itself")
    for place, thing in plugins(group):
        try:
            known_as = tuple(names(thing))
        except (TypeError, AttributeError) as error:
            message = f"{place}: cannot be used: {error}: see docs/adding, mend the package or uninstall it"
            raise BadInput(message) from error
        for name in known_as:
            if name in places:
                message = f"{place}: its name {name!r} is taken by {places[name]}: give it another or uninstall it"
                raise BadInput(message)
            objects[name], places[name] = thing, place
    return objects


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        message = (
            f"{_place(point)}: cannot be loaded: {type(error).__name__}: {error}: mend the package or uninstall it"
        )
        raise BadInput(message) from error


def _place(point: EntryPoint) -> str:
    """An entry point as messages name it: its group, name and value, and the package that has it."""
    package = f" of package {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"entry point {point.name} = {point.value} in {point.group}{package}"
