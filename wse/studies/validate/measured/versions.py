"""Software profiles for the timed code of a measurement, depending on its stated version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

from wse.hardware.load import load_software
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement

FIRST_VERSION, SECOND_VERSION = "first", "second"
RELOADED: Final = "tuned, descriptors loaded per operation"

GAP_CYCLES: Final = {FIRST_VERSION: 52, SECOND_VERSION: 16}
"""Cycles between two vector operations of a PE, in two versions of the collectives of
github.com/pr0f3ss/SpMM_Cerebras.

The first version is assumed to load descriptors before each operation, the second to preload them.
With these gaps, all 17 rows of two-phase reduces differ from the fabric model by the same 61
start-and-finish cycles. The second gap is the same as in the profile `tuned`."""

_PHRASES: Final = {
    "first code version": FIRST_VERSION,
    "second code version": SECOND_VERSION,
    "loaded per operation": FIRST_VERSION,
    "preloaded": SECOND_VERSION,
}
_COMMITS: Final = {"SpMM_Cerebras@2892da6": FIRST_VERSION, "SpMM_Cerebras@05f8fdb": SECOND_VERSION}


def collective_software(m: Measurement, wafer: WaferSpec, *, same_descriptors: bool) -> SoftwareProfile:
    """Return the software costs used to predict the duration of a hand-written collective.

    The costs are taken from the profile `tuned`, except for the gap between the vector operations
    of a PE. The gap depends on the version of the measured code, which is identified by the
    measurement's text or commit. By default, the second version is assumed.

    Args:
        m: The measurement.
        wafer: Wafer on which the measurement was made.
        same_descriptors: Whether all operations of a PE have the same descriptors. If so, the
            descriptors are loaded only once, and the version makes no difference.
    """
    tuned = software("tuned", wafer.generation)
    if same_descriptors:
        return tuned
    texts = f"{m.text('algorithm')} {m.text('note')}".lower()
    by_text = next((name for words, name in _PHRASES.items() if words in texts), None)
    by_commit = next((name for commit, name in _COMMITS.items() if commit in m.source), SECOND_VERSION)
    version = by_text or by_commit
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
