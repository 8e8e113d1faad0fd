"""The collective that a measurement names, its algorithm, and the cycles that its time includes.

There is one constant for each kind of timed window, never one for a single row. The text of a row
determines its window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import name_in

_COLLECTIVES: Final = {
    "reduce": "reduce",
    "broadcast": "broadcast",
    "multicast": "broadcast",
    "allreduce": "all_reduce",
}
_GROUP: Final = re.compile(r"\bs\s*=\s*([0-9]{1,5})\b")
_LEVELS: Final = re.compile(r"\bk\s*=\s*([0-9])\b")
_GROUP_COUNT: Final = re.compile(r"\b(?:g|groups?|group_num)\s*=\s*([0-9]{1,5})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The collective operation (reduce, broadcast or all-reduce) whose time was measured.

    Attributes:
        kind: ``reduce``, ``broadcast`` or ``all_reduce``.
        algorithm: Name of the algorithm. Empty if the models do not include the algorithm or the
            publication does not name one.
        group: PEs per group in a two-phase reduce. None selects the square root of the number of
            PEs on the line.
        groups: Number of groups of PEs in a two-level K-tree (a reduce tree with K levels). None
            selects the number for which the fewest PEs relay words on the longest path.
        levels: Number K of levels of a K-tree. None if not stated.
    """

    kind: str
    algorithm: str
    group: int | None
    groups: int | None
    levels: int | None


def collective_of(m: Measurement) -> Collective | None:
    """Return the measured collective, or None if the kernel is not a collective.

    The algorithm and its group sizes are read from free text.
    """
    kind = _COLLECTIVES.get(re.sub(r"^2d|[\s_-]", "", m.text("kernel").lower()))
    if kind is None:
        return None
    text = m.text("algorithm").lower()
    algorithm = name_in("algorithms", text) or ""
    texts = f"{text} {m.text('note').lower()}"
    group, groups, levels = _GROUP.search(text), _GROUP_COUNT.search(texts), _LEVELS.search(text)
    return Collective(
        kind=kind,
        algorithm=algorithm,
        group=int(group[1]) if group else None,
        groups=int(groups[1]) if groups else None,
        levels=int(levels[1]) if levels else None,
    )


TIMED_PROGRAM_CYCLES: Final = 61
"""Start-and-finish cycles included in the time of a collective.

This is the difference between 15 measured chains and B + 6 (P - 1), for B words and P PEs. The
cycles are spent before the first transfer and for the time stamps, not in the fabric. Source: logs
of the WSE-2 fabric simulator, github.com/pr0f3ss/SpMM_Cerebras."""

SIMULATION_CYCLES: Final = 48 + 50
"""Cycles before and after the collective in the time of a whole simulation: 48 before the program
starts, and 50 idle cycles at the end. Source: the same logs."""

_WHOLE_SIMULATION: Final = re.compile(r"\bwhole[- ]simulation\b", re.IGNORECASE)
_LAUNCH_SKEW: Final = re.compile(r"\blaunch (skew|itself ripples)\b", re.IGNORECASE)


def clock_starts_apart(m: Measurement) -> bool:
    """Return whether the clocks of the measured PEs were started at different times.

    The difference is part of the measured times, which are thus comparable only with each other.
    """
    return _LAUNCH_SKEW.search(m.text("note")) is not None


def program_window(m: Measurement) -> int:
    """Return how many cycles a published time includes in addition to the collective operation.

    The number depends on how the time was measured: by two time stamps in the program, or as the
    duration of a whole simulation.
    """
    is_whole_simulation = _WHOLE_SIMULATION.search(m.text("note")) or _WHOLE_SIMULATION.search(m.text("metric"))
    return SIMULATION_CYCLES if is_whole_simulation else TIMED_PROGRAM_CYCLES
