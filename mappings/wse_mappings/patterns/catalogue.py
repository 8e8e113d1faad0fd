"""Catalogue of the bundled patterns: all constants of type `Pattern` in the files of this folder."""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType
from typing import Final

from wse_mappings import patterns
from wse_mappings.patterns.pattern import Pattern

_FIRST: Final = (
    *("chain", "star", "binary_tree", "two_phase", "k_tree", "ring_all_reduce", "auto_gen", "both_sides"),
    *("reduce_multicast", "gather", "point_to_point", "cache_shift", "edge_stream", "transpose", "multicast"),
    *("ring_shift", "ring_reduce", "snake", "x_y", "rings_at_once"),
)
"""Names of the patterns that come first, in the given order.

A search keeps the first of equally fast patterns, so the order affects its results. All other
patterns follow in alphabetical order.
"""


def _bundled_patterns() -> dict[str, Pattern]:
    """Return the bundled patterns keyed by name, in the order of searches and reports."""
    files = [module.name for module in pkgutil.iter_modules(patterns.__path__) if module.name != "catalogue"]
    modules = [importlib.import_module(f"{patterns.__name__}.{file}") for file in files]
    constants = [constant for module in modules for constant in vars(module).values()]
    by_name = {constant.name: constant for constant in constants if isinstance(constant, Pattern)}
    names = [*(name for name in _FIRST if name in by_name), *sorted(by_name.keys() - set(_FIRST))]
    return {name: by_name[name] for name in names}


BUNDLED_PATTERNS: Final = MappingProxyType(_bundled_patterns())
"""The patterns bundled with wse, by name."""
