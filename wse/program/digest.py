"""Hash of compiled Programs."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def digest_of(value: Any) -> str:
    """Return a SHA-256 hash in hex of a value and of all values that it contains."""
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: Any) -> None:
    """Add a value, and all values that it contains, to a hash.

    The type and size of each item are also added, so that different Programs yield different hash
    input. Fields that are excluded from comparisons are skipped.
    """
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        digest.update(type(value).__name__.encode())
        for item in fields(value):
            if item.compare:
                _feed(digest, getattr(value, item.name))
    elif isinstance(value, tuple):
        digest.update(f"({len(value)}".encode())
        for item in value:
            _feed(digest, item)
    else:
        digest.update(f"{value!r};".encode())
