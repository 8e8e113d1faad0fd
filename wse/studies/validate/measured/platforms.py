"""Reader of the text in which measurements name their machine: a wafer or the simulator."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement

SIMULATOR_WORDS_PER_CYCLE: Final = 1.0
"""Words per cycle of a vector stream on links and ramps in the vendor's fabric simulator, for both
generations.

On WSE-3 silicon, the rate is 8 words in 9 cycles. Source:
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_GENERATION: Final = re.compile(r"\b(?:WSE|CS)-?([0-9])\b", re.IGNORECASE)
_UNSTATED: Final = re.compile(r"not stated", re.IGNORECASE)


def wafer_of(m: Measurement) -> WaferSpec | None:
    """Return the wafer on which a measurement was made.

    Return None unless the measurement names exactly one known wafer generation.
    """
    digits = set(_GENERATION.findall(m.platform)) | {g.digit for g in RECORDS.values() if g.fabric in m.platform}
    preset = next((name for name, generation in RECORDS.items() if {generation.digit} == digits), None)
    return None if preset is None else _preset(preset)


def on_simulator(m: Measurement) -> bool:
    """Return whether a measurement was made in the vendor's simulator, according to its source."""
    return "simulator" in m.platform.lower() and not _UNSTATED.search(m.platform)


def on_silicon(m: Measurement) -> bool:
    """Return whether a measurement was made on silicon.

    This is assumed if a platform other than the simulator is stated.
    """
    return not on_simulator(m) and not _UNSTATED.search(m.platform)


def words_per_cycle(m: Measurement, wafer: WaferSpec) -> float:
    """Return the words per cycle of a vector stream on a measurement's platform.

    The rate in the vendor's simulator differs from the rate on silicon.
    """
    return SIMULATOR_WORDS_PER_CYCLE if on_simulator(m) else wafer.stream_words_per_cycle


@cache
def _preset(name: str) -> WaferSpec:
    return load_wafer(name)
