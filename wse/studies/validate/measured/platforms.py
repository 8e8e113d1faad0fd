"""The machine and the software profile that the cells of a measurement name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import name_in

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
    """Return whether a measurement was made on silicon instead of the vendor's simulator.

    If the measurement states another platform than the simulator, silicon is assumed.
    """
    return not on_simulator(m) and not _UNSTATED.search(m.platform)


def words_per_cycle(m: Measurement, wafer: WaferSpec) -> float:
    """Return how many words per cycle a PE can stream on the platform of a measurement.

    The rate in the vendor's simulator differs from the rate on silicon.
    """
    return SIMULATOR_WORDS_PER_CYCLE if on_simulator(m) else wafer.stream_words_per_cycle


@cache
def _preset(name: str) -> WaferSpec:
    return load_wafer(name)


FIRST_VERSION, SECOND_VERSION = "first", "second"
RELOADED: Final = "tuned, descriptors loaded per operation"

GAP_CYCLES: Final = {FIRST_VERSION: 52, SECOND_VERSION: 16}
"""Cycles between two vector operations of a PE, in two versions of the collectives of
github.com/pr0f3ss/SpMM_Cerebras.

The first version is assumed to load descriptors before each operation, the second to preload them.
With these gaps, all 17 rows of two-phase reduces differ from the fabric model by the same 61
start-and-finish cycles. The second gap is the same as in the profile `tuned`."""


def collective_software(m: Measurement, wafer: WaferSpec, *, same_descriptors: bool) -> SoftwareProfile:
    """Return the software costs used to predict the duration of a hand-written collective.

    These are the costs of the software profile `tuned`, except for the cycles between two vector
    operations of a PE. They depend on the version of the measured code:

    - The first version is assumed to load descriptors (the addresses and lengths of operands)
      before each operation.
    - The second version is assumed to load all descriptors in advance.

    The text or the commit of the measurement identifies the version. If neither does, the second
    version is assumed.

    Args:
        m: The measurement.
        wafer: Wafer on which the measurement was made.
        same_descriptors: Whether all operations of a PE have the same descriptors. If so, the
            version makes no difference.
    """
    tuned = software("tuned", wafer.generation)
    if same_descriptors:
        return tuned
    texts = f"{m.text('algorithm')} {m.text('note')}".lower()
    version = name_in("code_versions", texts) or name_in("code_commits", m.source) or SECOND_VERSION
    return tuned if version == SECOND_VERSION else replace(tuned, name=RELOADED, reduce_gap_cycles=GAP_CYCLES[version])


Profiles = Callable[[str, str], SoftwareProfile]
"""Function that returns a software profile, given its name and the name of a wafer generation."""


@cache
def software(name: str, generation: str) -> SoftwareProfile:
    """Return a bundled profile's software costs for a wafer generation.

    Args:
        name: Name of the profile, such as ``tuned``.
        generation: Name of the wafer generation.
    """
    return load_software(name, generation)
