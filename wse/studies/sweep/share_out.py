"""Which worker does which setting next.

Settings that differ only in numbers of the machine or of its software and in how many tokens are generated are for the
most part compiled alike. Such a group goes to one worker, one after another, so that what its process keeps of the
first, such as searched trees, serves the others. A worker without a group takes over half of what is left of the
longest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from wse.studies.sweep.fields import is_number_of_machine
from wse.studies.sweep.grid import Grid

TOKENS = "new_tokens"


def groups(grid: Grid, settings: Iterable[int]) -> list[list[int]]:
    """Settings in groups that are alike but for such numbers, in the grid's order."""
    deciding = [at for at, axis in enumerate(grid.axes) if not is_number_of_machine(axis.name) and axis.name != TOKENS]
    found: dict[tuple[int, ...], list[int]] = {}
    for setting in settings:
        places = grid.places(setting)
        found.setdefault(tuple(places[at] for at in deciding), []).append(setting)
    return list(found.values())


class Queue:
    """Settings that are to be done, by group."""

    def __init__(self, waiting: Iterable[list[int]]) -> None:
        self._waiting = deque(deque(group) for group in waiting)
        self._of: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """The next setting of a worker; None where nothing is left."""
        mine = self._of.setdefault(worker, deque())
        if not mine and self._waiting:
            mine = self._waiting.popleft()
        elif not mine:
            longest = max(self._of.values(), key=len)
            mine = deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))
        self._of[worker] = mine
        return mine.popleft() if mine else None

    def again(self, worker: int, setting: int) -> None:
        """Have a worker do a setting once more, before its others."""
        self._of[worker].appendleft(setting)
