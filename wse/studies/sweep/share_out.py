"""Groups of settings that one worker does one after another.

Settings that differ only in numbers of the machine or of its software and in how many tokens are generated are for the
most part compiled alike. Such a group goes to one worker (`wse.studies.workers.queue.Queue`), so that what its process
keeps of the first, such as searched trees, serves the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from wse.studies.sweep.fields import is_number_of_machine
from wse.studies.sweep.grid import Grid

TOKENS = "new_tokens"


def groups(grid: Grid, settings: Iterable[int]) -> list[list[int]]:
    """Settings in groups that are alike but for such numbers, in the grid's order."""
    deciding = [at for at, axis in enumerate(grid.axes) if not is_number_of_machine(axis.name) and axis.name != TOKENS]
    by_places: dict[tuple[int, ...], list[int]] = {}
    for setting in settings:
        places = grid.places(setting)
        by_places.setdefault(tuple(places[at] for at in deciding), []).append(setting)
    return list(by_places.values())
