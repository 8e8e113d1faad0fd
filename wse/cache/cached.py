"""Computations whose results are kept in the cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from wse.cache.records import BadRecordError, from_plain, to_plain
from wse.cache.store import read_entry, write_entry

T = TypeVar("T")


def cached(key: str | None, kind: Any, compute: Callable[[], T]) -> T:
    """Return a result from the cache, or compute it and store it there.

    If the cached result does not have the type ``kind``, it is computed again and replaced. Errors
    are not cached.

    Args:
        key: Key of the result; None to compute it without the cache.
        kind: Type of the result, for `from_plain`. A type such as ``int | None`` is possible.
        compute: Function that computes the result.
    """
    if key is None:
        return compute()
    # An entry is a list with the result, so that the result None differs from a missing entry.
    with suppress(BadRecordError):  # also if there is no entry
        result: T = from_plain(tuple[kind], read_entry(key))[0]
        return result
    result = compute()
    write_entry(key, to_plain((result,)))
    return result
