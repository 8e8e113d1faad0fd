"""Results of pure functions that one request asks for again, kept as long as the request and no longer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class ResultCache:
    """The cache of a request. It is passed along with the request and is freed with it.

    A pickled cache comes back empty.
    """

    def __init__(self) -> None:
        self._cached: dict[Callable[..., Any], Callable[..., Any]] = {}

    def of(self, function: Callable[P, T], limit: int | None = None) -> Callable[P, T]:
        """Return a function with the same results that computes each of them once.

        Args:
            function: A pure function of hashable arguments, which stays the same object.
            limit: Maximum number of results that are kept, the last ones used; None for all of them.
        """
        if function not in self._cached:
            self._cached[function] = lru_cache(maxsize=limit)(function)
        return cast("Callable[P, T]", self._cached[function])

    def __reduce__(self) -> tuple[type[ResultCache], tuple[()]]:
        """Leave the results behind."""
        return ResultCache, ()
