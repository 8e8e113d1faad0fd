"""Progress of a simulation, reported about a hundred times for any number of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OnDone = Callable[[int, int], None]
"""Function that is called with the number of requests that have left and the total number."""
_CALLS: Final = 100


def reporter(on_done: OnDone, total: int) -> Callable[[int], None]:
    """Return a function that reports progress to ``on_done`` about a hundred times in total.

    Args:
        on_done: Function that is called with the number of finished requests and the total number.
        total: Total number of requests.

    Returns:
        A function to be called often, with the number of finished requests. Most of its calls do
        nothing.
    """
    step, next_report = max(1, total // _CALLS), 0

    def report(finished_count: int) -> None:
        """Call ``on_done`` if enough requests have finished since the last call."""
        nonlocal next_report
        if finished_count >= next_report:
            next_report = finished_count + step
            on_done(finished_count, total)

    return report
