"""Patterns by name: the bundled ones, and those of packages of users."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from wse.plugins import PATTERNS, extended
from wse_mappings.patterns.bundled import BUNDLED_PATTERNS
from wse_mappings.patterns.pattern import LineReduce, Pattern


@cache
def patterns() -> Mapping[str, Pattern]:
    """Patterns by name, the bundled ones first.

    Raises:
        BadInput: a package brings one that cannot be used.
    """
    return extended(PATTERNS, BUNDLED_PATTERNS, _names)


@cache
def line_reduces() -> Mapping[str, LineReduce]:
    """The reduces of a line into its end, by the names of their patterns; errors as of `patterns`."""
    return {name: pattern.reduce for name, pattern in patterns().items() if pattern.reduce is not None}


def _names(thing: Any) -> tuple[str]:
    if not isinstance(thing, Pattern):
        message = f"a {type(thing).__name__} is no wse_mappings.patterns.pattern.Pattern"
        raise TypeError(message)
    return (thing.name,)
