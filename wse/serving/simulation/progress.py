"""Progress of a simulation: a function that is called about a hundred times for any number of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OnDone = Callable[[int, int], None]
"""Called with the requests that have left, and all of them."""
_CALLS: Final = 100


def ignore(done: int, total: int) -> None:
    """Tell nobody."""


def reporter(on_done: OnDone, total: int) -> Callable[[int], None]:
    """Return a function to call with the requests that have left, which tells ``on_done`` now and then."""
    step, due = max(1, total // _CALLS), 0

    def report(done: int) -> None:
        nonlocal due
        if done >= due:
            due = done + step
            on_done(done, total)

    return report
