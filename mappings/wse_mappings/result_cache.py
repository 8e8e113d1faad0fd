"""Cache for the results of pure functions, with the lifetime of one request."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class ResultCache:
    """Cache for the results of pure functions while one request is processed.

    The request refers to the cache, so that both are freed together. Pickling the cache discards
    the results.
    """

    def __init__(self) -> None:
        self._cached: dict[Callable[..., Any], Callable[..., Any]] = {}

    def of(self, function: Callable[P, T], limit: int | None = None) -> Callable[P, T]:
        """Return a version of a function that caches its results.

        Args:
            function: Pure function of hashable arguments. The same object must be passed each time.
            limit: Maximum number of results to keep, favouring the most recently used; None to keep
                all.
        """
        if function not in self._cached:
            self._cached[function] = lru_cache(maxsize=limit)(function)
        return cast("Callable[P, T]", self._cached[function])

    def __reduce__(self) -> tuple[type[ResultCache], tuple[()]]:
        """Pickle the cache without its results."""
        return ResultCache, ()
