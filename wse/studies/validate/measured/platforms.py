"""Conditions of a measurement, read from its text.

These are the machine, the software profile, the collective and its algorithm, and the cycles that the
measured time includes. There is one constant for each kind of timed window, never one for a single
row. The text of a row determines its window.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import name_in, whole_in

SIMULATOR_WORDS_PER_CYCLE: Final = 1.0
"""Words per cycle of a vector stream on links and ramps in the vendor's fabric simulator, for both
generations.

On WSE-3 silicon, the rate is 8 words in 9 cycles. Source:
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_GENERATION: Final = re.compile(r"\b(?:WSE|CS)-?([0-9])\b", re.IGNORECASE)
_UNSTATED: Final = re.compile(r"not stated", re.IGNORECASE)

_wafer = cache(load_wafer)
software = cache(load_software)
"""Function that returns a bundled profile's software costs, given its name and a wafer generation."""


def wafer_of(m: Measurement) -> WaferSpec | None:
    """Return the wafer on which a measurement was made.

    Return None unless the measurement names exactly one known wafer generation.
    """
    digits = set(_GENERATION.findall(m.platform)) | {g.digit for g in RECORDS.values() if g.fabric in m.platform}
    preset = next((name for name, generation in RECORDS.items() if {generation.digit} == digits), None)
    return None if preset is None else _wafer(preset)


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
    return Collective(
        kind=kind,
        algorithm=algorithm,
        group=whole_in(_GROUP, text),
        groups=whole_in(_GROUP_COUNT, texts),
        levels=whole_in(_LEVELS, text),
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
