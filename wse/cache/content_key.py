"""Keys of cache entries: a hash of everything that determines a result.

A key covers the kind of result, its inputs by content, the source files of wse, and the versions of
Python, numpy and h5py. There is no key, and nothing is cached, if a result depends on code that is not
covered: an object in a user's Python file, or an installed package that extends wse.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.cache.store import cache_folder
from wse.plugins import names_file_object

PACKAGES: Final = ("wse", "wse_mappings", "wse_traces")
"""Packages whose source files and data determine the results of compiling, timing and reading traces."""
SUFFIXES: Final = frozenset((".py", ".toml", ".csv", ".json"))
PLUGIN_GROUPS: Final = "wse."
"""Prefix of the entry point groups with which installed packages extend wse."""

_LOADED_S: Final = time.time()


class NotCacheableError(Exception):
    """Raised for an input from which no key can be computed; the result is then not cached."""


def content_key(kind: str, *inputs: Any) -> str | None:
    """Return the cache key of a result, or None if the result is not to be cached.

    Args:
        kind: Kind of the result, such as ``layouts``.
        inputs: Everything that determines the result: numbers, strings, and dataclasses, mappings
            and sequences of them. Dataclass fields with ``compare=False`` are ignored.

    Returns:
        64 hexadecimal digits. None if the cache is disabled, or if an input cannot be part of a
        key.
    """
    if cache_folder() is None:
        return None
    try:
        content = [_content(value) for value in inputs]
    except NotCacheableError:
        return None
    code = code_version()
    return None if code is None else sha256(json.dumps([kind, code, content]).encode()).hexdigest()


@cache
def code_version() -> str | None:
    """Return a hash of the code of wse, or None if results must not be cached.

    Results must not be cached in three cases: the code was imported from an archive and has no
    files, installed packages extend it, or a file has changed since this module was imported.

    The content of the files is hashed, which takes about 30 ms, because two builds with the same
    version number may differ.
    """
    if any(group.startswith(PLUGIN_GROUPS) for group in entry_points().groups):
        return None
    versions = f"{sys.version} {np.__version__} {version('h5py')} {platform.machine()}"
    digest = sha256(versions.encode())
    files = list(_source_files())
    if not files:  # imported from an archive
        return None
    for name, path in files:
        if path.stat().st_mtime > _LOADED_S:  # this process may have imported the file before it changed
            return None
        digest.update(f"\n{name} ".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _source_files() -> Iterator[tuple[str, Path]]:
    """Yield the source and data files of `PACKAGES` in a fixed order, each with its name in the package."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        for folder in map(Path, spec.submodule_search_locations or ()):
            paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
            yield from ((f"{package}/{path.relative_to(folder).as_posix()}", path) for path in paths)


def _content(value: Any) -> Any:
    """Convert a value to nested lists of strings and numbers, from which its hash is computed.

    Two values give equal lists exactly if their contents are equal.

    Raises:
        NotCacheableError: The type is not supported, or a string names an object in a Python file
            (``FILE.py:NAME``), whose content could change.
    """
    if isinstance(value, str):
        if names_file_object(value.partition("@")[0]):
            raise NotCacheableError(value)
        return value
    if value is None or isinstance(value, bool | int | float):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Mapping):
        return ["mapping", *([_content(key), _content(item)] for key, item in value.items())]
    if is_dataclass(value):
        contents = (_content(getattr(value, field.name)) for field in fields(value) if field.compare)
        return [type(value).__qualname__, *contents]
    if isinstance(value, list | tuple):
        return ["sequence", *map(_content, value)]
    raise NotCacheableError(type(value).__name__)
