"""The machine that a row was measured on, from the source's words for it."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement

SIMULATOR_WORDS_PER_CYCLE: Final = 1.0
"""A vector stream in the vendor's fabric simulator, of either generation: one word a cycle on link and ramp. On WSE-3
silicon it is 8 in 9 cycles. github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_GENERATION: Final = re.compile(r"\b(?:WSE|CS)-?([0-9])\b", re.IGNORECASE)
_UNSTATED: Final = re.compile(r"not stated", re.IGNORECASE)


def wafer_of(m: Measurement) -> WaferSpec | None:
    """Return the preset of the only generation that the row names, if there is one."""
    digits = set(_GENERATION.findall(m.platform)) | {g.digit for g in RECORDS.values() if g.fabric in m.platform}
    preset = next((name for name, generation in RECORDS.items() if {generation.digit} == digits), None)
    return None if preset is None else _preset(preset)


def on_simulator(m: Measurement) -> bool:
    """Return whether the row says that the vendor's simulator ran it."""
    return "simulator" in m.platform.lower() and not _UNSTATED.search(m.platform)


def on_silicon(m: Measurement) -> bool:
    """Return whether the row says that a wafer ran it."""
    return not on_simulator(m) and not _UNSTATED.search(m.platform)


def words_per_cycle(m: Measurement, wafer: WaferSpec) -> float:
    """Return the rate of a vector stream where the row was measured."""
    return SIMULATOR_WORDS_PER_CYCLE if on_simulator(m) else wafer.stream_words_per_cycle


@cache
def _preset(name: str) -> WaferSpec:
    return load_wafer(name)
