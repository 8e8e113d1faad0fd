"""Conversion of cycles to the unit that a measurement states."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_number

_CLOCK: Final = re.compile(r"at (?:an assumed )?([0-9.]+) ?([GM])Hz", re.IGNORECASE)
_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_CYCLES: Final = {"cycle": 1, "cycles": 1, "kcycles": 1e3, "mcycles": 1e6}


def in_unit(m: Measurement, cycles: float, clock_hz: float) -> float | None:
    """Convert cycles to the unit of a measurement, or return None if it has no time or rate unit.

    None is also returned for a clock that is not a positive number.

    Args:
        m: The measurement. If its unit or metric states a clock, that clock is used.
        cycles: The duration in cycles.
        clock_hz: Clock to use if the measurement states none.
    """
    unit = m.text("unit").strip().lower()
    match = _CLOCK.search(unit) or _CLOCK.search(m.text("metric"))
    if match:
        clock_hz = (read_number(match[1]) or 0) * (1e9 if match[2].lower() == "g" else 1e6)
        if not clock_hz:
            return None
    first = unit.split()[0].split("/")[0] if unit else ""
    if first in _CYCLES:
        return cycles / _CYCLES[first]
    if unit.startswith(("tok/s", "tokens/s", "token/s")):
        return clock_hz / cycles if cycles else None
    return cycles / clock_hz / _SECONDS[first] if first in _SECONDS else None
