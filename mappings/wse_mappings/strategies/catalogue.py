"""Catalogue of the bundled strategies: the ``STRATEGY`` of each file in this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType
from typing import Final

from wse_mappings import strategies
from wse_mappings.strategies.strategy import Strategy

_SHARED: Final = ("catalogue", "strategy")


@cache
def bundled_strategies() -> MappingProxyType[str, Strategy]:
    """Return the bundled mapping strategies keyed by name, in the order of their files."""
    files = sorted(module.name for module in pkgutil.iter_modules(strategies.__path__))
    modules = [importlib.import_module(f"{strategies.__name__}.{file}") for file in files if file not in _SHARED]
    return MappingProxyType({module.STRATEGY.name: module.STRATEGY for module in modules})
