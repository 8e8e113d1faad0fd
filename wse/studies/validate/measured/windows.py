"""Timed windows: cycles in a published time that are not part of the transfer or the work itself.

There is one constant for each kind of window, never one for a single row. The text of a row
determines its window.
"""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement

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
    """Return whether the PE clocks were started at different times, so that they disagree.

    Times measured in this way are comparable only with each other.
    """
    return _LAUNCH_SKEW.search(m.text("note")) is not None


def program_window(m: Measurement) -> int:
    """Return the cycles that a published time includes beyond the collective itself.

    The number depends on what was timed: the interval between two time stamps, or a whole
    simulation.
    """
    is_whole_simulation = _WHOLE_SIMULATION.search(m.text("note")) or _WHOLE_SIMULATION.search(m.text("metric"))
    return SIMULATION_CYCLES if is_whole_simulation else TIMED_PROGRAM_CYCLES
