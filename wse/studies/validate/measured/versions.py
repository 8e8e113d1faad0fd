"""The software profile with the costs of the code that a row timed."""

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
"""Cycles between two vector operations of a PE in the two versions of the collectives in
github.com/pr0f3ss/SpMM_Cerebras: descriptors loaded for each operation, or preloaded, it is taken. With them the fast
model leaves the same 61 cycles of start and finish for all its rows (17 of two-phase reduces). The second is the gap of
the profile `tuned`."""

_PHRASES: Final = {
    "first code version": FIRST_VERSION,
    "second code version": SECOND_VERSION,
    "loaded per operation": FIRST_VERSION,
    "preloaded": SECOND_VERSION,
}
_COMMITS: Final = {"SpMM_Cerebras@2892da6": FIRST_VERSION, "SpMM_Cerebras@05f8fdb": SECOND_VERSION}


def collective_software(m: Measurement, wafer: WaferSpec, *, same_descriptors: bool) -> SoftwareProfile:
    """The costs of a hand-written collective: `tuned`, with the gap of the version that the row or its commit names.

    Args:
        m: The row.
        wafer: What it ran on.
        same_descriptors: Whether all operations of a PE have the same descriptors, which then are loaded once.
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
"""Gives the costs of a profile by its name on a generation."""


@cache
def software(name: str, generation: str) -> SoftwareProfile:
    """Return a bundled profile's costs on a generation, read once."""
    return load_software(name, generation)
