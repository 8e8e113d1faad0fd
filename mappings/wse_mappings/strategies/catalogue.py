"""Catalogue of the bundled strategies: all objects of type `Strategy` in the files of this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

from wse_mappings import strategies
from wse_mappings.strategies.strategy import Strategy


@cache
def bundled_strategies() -> MappingProxyType[str, Strategy]:
    """Return the bundled mapping strategies keyed by name, in alphabetical order."""
    files = [module.name for module in pkgutil.iter_modules(strategies.__path__)]
    modules = [importlib.import_module(f"{strategies.__name__}.{file}") for file in files]
    constants = [constant for module in modules for constant in vars(module).values()]
    bundled = [constant for constant in constants if Strategy in type(constant).__mro__]
    return MappingProxyType(
        {strategy.name: strategy for strategy in sorted(bundled, key=lambda strategy: strategy.name)}
    )
