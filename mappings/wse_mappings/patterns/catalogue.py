"""Catalogue of the bundled patterns: the ``PATTERN`` of each file in this folder.

Files in the folder are included automatically.
"""

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
"""Files whose patterns come first, in the given order.

A search keeps the first of equally fast patterns, so the order affects its results. All other files
follow in alphabetical order.
"""


def _patterns_by_file() -> dict[str, Pattern]:
    """Import the bundled patterns, and return them keyed by file name without ``.py``."""
    files = sorted(module.name for module in pkgutil.iter_modules(patterns.__path__) if module.name != "catalogue")
    modules = {file: importlib.import_module(f"{patterns.__name__}.{file}") for file in files}
    return {file: module.PATTERN for file, module in modules.items() if hasattr(module, "PATTERN")}


def _in_order(patterns_by_file: dict[str, Pattern]) -> dict[str, Pattern]:
    """Return the bundled patterns keyed by pattern name, in the order of searches and reports.

    Args:
        patterns_by_file: Patterns keyed by file name without ``.py``.
    """
    files = [
        *(file for file in _FIRST if file in patterns_by_file),
        *(file for file in patterns_by_file if file not in _FIRST),
    ]
    return {patterns_by_file[file].name: patterns_by_file[file] for file in files}


BUNDLED_PATTERNS: Final = MappingProxyType(_in_order(_patterns_by_file()))
"""The patterns bundled with wse, by name."""
