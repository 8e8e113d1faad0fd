"""The rewrites by name: each is ``REWRITE`` of a file of this folder, or an entry point of another package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wse.compiler import rewrites as folder
from wse.compiler.rewrites.rewrite import Rewrite
from wse.plugins import REWRITES, with_plugins


@cache
def known_rewrites() -> Mapping[str, Rewrite]:
    """Return the rewrites by name, in the order in which they are applied.

    Raises:
        BadInput: A package brings one that cannot be used.
    """
    files = [file.name for file in pkgutil.iter_modules(folder.__path__)]
    modules = [importlib.import_module(f"{folder.__name__}.{file}") for file in files]
    bundled = {module.REWRITE.name: module.REWRITE for module in modules if hasattr(module, "REWRITE")}
    found = with_plugins(REWRITES, bundled, _names)
    return MappingProxyType(dict(sorted(found.items(), key=lambda one: (one[1].position, one[0]))))


def _names(thing: Any) -> tuple[str]:
    """Return the name of a rewrite.

    Raises TypeError for anything else.
    """
    if not isinstance(thing, Rewrite):
        message = f"a {type(thing).__name__} is no wse.compiler.rewrites.rewrite.Rewrite"
        raise TypeError(message)
    return (thing.name,)
