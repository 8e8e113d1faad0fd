"""Which software profile has the costs of the code that a row timed."""

from __future__ import annotations

from functools import cache
from typing import Final

from wse.hardware.load import load_software
from wse.hardware.spec import SoftwareProfile
from wse.studies.validation.measurements import Measurement

PER_OPERATION: Final = "academic"
PRELOADED: Final = "tuned"

_TOLD: Final = {
    "first code version": PER_OPERATION,
    "second code version": PRELOADED,
    "loaded per operation": PER_OPERATION,
    "preloaded": PRELOADED,
}
_COMMITS: Final = {"SpMM_Cerebras@2892da6": PER_OPERATION, "SpMM_Cerebras@05f8fdb": PRELOADED}
"""The two versions of the collectives in github.com/pr0f3ss/SpMM_Cerebras. From the first to the second, the time from
one vector operation of a PE to the next falls from 52 cycles to 16: taken to be the loading of its descriptors."""


def collective_software(m: Measurement, *, alike: bool) -> SoftwareProfile:
    """The profile of a hand-written collective: by the version that the row names, else by its commit, else `tuned`.

    Args:
        m: The row.
        alike: Whether all operations of a PE have the same descriptors, which then are loaded once in any version.
    """
    if alike:
        return software(PRELOADED)
    told = f"{m.text('algorithm')} {m.text('note')}".lower()
    by_text = next((name for words, name in _TOLD.items() if words in told), None)
    by_commit = next((name for commit, name in _COMMITS.items() if commit in m.source), PRELOADED)
    return software(by_text or by_commit)


@cache
def software(name: str) -> SoftwareProfile:
    """A bundled profile, read once."""
    return load_software(name)
