"""Queue: which worker does which item next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Queue:
    """Items that are to be done, by group.

    A group goes to one worker, one item after another, so that what its process keeps of the first serves the others. A
    worker without a group takes over half of what is left of the longest.
    """

    def __init__(self, waiting: Iterable[list[int]]) -> None:
        self._waiting = deque(deque(group) for group in waiting)
        self._of: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """The next item of a worker; None where nothing is left."""
        own = self._of.setdefault(worker, deque())
        if not own and self._waiting:
            own = self._waiting.popleft()
        elif not own:
            longest = max(self._of.values(), key=len)
            own = deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))
        self._of[worker] = own
        return own.popleft() if own else None

    def again(self, worker: int, item: int) -> None:
        """Have a worker do an item once more, before its others."""
        self._of[worker].appendleft(item)
