"""Entry points of packages of users: what is found, what is refused and how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from wse import plugins
from wse.compiler import strategies
from wse.errors import BadInput, UnknownName
from wse_mappings.strategies.bundled import bundled_strategies
from wse_mappings.strategies.region import Region


class Halves(Region):
    name = "halves"


class Taken(Region):
    name = "tensor"


GOOD, TAKEN, BAD = Halves(), Taken(), object()


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that are found in the place of the installed ones."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in found if point.group == group])
    caches: tuple[Any, ...] = (plugins.plugins, strategies.strategies)
    for cache in caches:
        cache.cache_clear()
    yield found
    for cache in caches:
        cache.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=plugins.STRATEGIES)


def test_a_strategy_of_a_package_is_found_after_the_bundled_ones(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("halves", f"{__name__}:GOOD"))
    assert list(strategies.strategies()) == [*bundled_strategies(), "halves"]
    assert strategies.strategy("halves") is strategies.strategies()["halves"]


def test_bundled_names_are_found_without_looking_for_packages(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("broken", "no_such_package_of_anybody:STRATEGY"))
    assert strategies.strategy("region") is bundled_strategies()["region"]
    with pytest.raises(BadInput, match="no_such_package_of_anybody"):
        strategies.strategy("halves")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_package_of_anybody:STRATEGY", "cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{__name__}:NOTHING", "cannot be loaded: AttributeError: module"),
        (f"{__name__}:BAD", "cannot be used: 'object' object has no attribute 'name'"),
        (f"{__name__}:TAKEN", "its name 'tensor' is taken by wse itself: give it another or uninstall it"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_place_and_remedy(
    value: str, told: str, entry_points: list[EntryPoint]
) -> None:
    entry_points.append(point("mine", value))
    with pytest.raises(BadInput) as error:
        strategies.strategies()
    message = str(error.value)
    assert message.startswith(f"entry point mine = {value} in wse.mappings: ")
    assert told in message
    assert "uninstall it" in message
    assert "\n" not in message


def test_two_packages_cannot_share_a_name(entry_points: list[EntryPoint]) -> None:
    entry_points += [point("a", f"{__name__}:GOOD"), point("b", f"{__name__}:GOOD")]
    with pytest.raises(BadInput, match=r"point b .* its name 'halves' is taken by entry point a = "):
        strategies.strategies()


def test_an_unknown_mapping_is_told_with_those_of_packages(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("halves", f"{__name__}:GOOD"))
    with pytest.raises(UnknownName, match=r"did you mean 'halves'\? known: auto, expert, halves, "):
        strategies.strategy("halve")
