"""All rewrites by name, from this package and from users' packages.

A module in this package defines its rewrite as ``REWRITE``; other packages name their rewrites in
entry points.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wse.compiler import rewrites as folder
from wse.compiler.rewrites.rewrite import Rewrite
from wse.plugins import REWRITES, with_plugins, wrong_type


@cache
def known_rewrites() -> Mapping[str, Rewrite]:
    """Return all rewrites by name, in the order in which they are applied.

    A rewrite changes the steps of a layer to save cycles. Some rewrites come with this package, and
    users' packages may add others.

    Raises:
        BadInput: A rewrite from a user's package is unusable.
    """
    files = [file.name for file in pkgutil.iter_modules(folder.__path__)]
    modules = [importlib.import_module(f"{folder.__name__}.{file}") for file in files]
    bundled = {module.REWRITE.name: module.REWRITE for module in modules if hasattr(module, "REWRITE")}
    found = with_plugins(REWRITES, bundled, _names)
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].position, item[0]))))


def _names(candidate: Any) -> tuple[str]:
    """Check that an object from a user's package is a rewrite, and return a tuple with its name.

    Raises:
        TypeError: The object is not a rewrite.
    """
    if not isinstance(candidate, Rewrite):
        raise wrong_type(candidate, "wse.compiler.rewrites.rewrite.Rewrite")
    return (candidate.name,)
