"""Windows that sources timed: the cycles of a published time beside the transfer or the work itself.

One constant a kind of window, never one a row. A row names its window in its own words.
"""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement

TIMED_PROGRAM_CYCLES: Final = 61
"""Start and finish of a timed collective: what the 15 chain rows leave over B + 6 (P - 1). WSE-2 fabric simulator logs,
github.com/pr0f3ss/SpMM_Cerebras; in the first cycles and the stamps around them, not in the fabric."""

SIMULATION_CYCLES: Final = 48 + 50
"""Further cycles of rows that count a whole simulation: 48 before the program starts, 50 idle at the end. Same logs."""

_WHOLE: Final = re.compile(r"\bwhole[- ]simulation\b", re.IGNORECASE)
_APART: Final = re.compile(r"\blaunch (skew|itself ripples)\b", re.IGNORECASE)


def clock_starts_apart(m: Measurement) -> bool:
    """Return whether the clocks of the PEs were started one after another, by the launch itself."""
    return _APART.search(m.text("note")) is not None


def program_window(m: Measurement) -> int:
    """Return the cycles of a timed collective that are not the collective's own."""
    whole = _WHOLE.search(m.text("note")) or _WHOLE.search(m.text("metric"))
    return SIMULATION_CYCLES if whole else TIMED_PROGRAM_CYCLES
