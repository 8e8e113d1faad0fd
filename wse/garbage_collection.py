"""Settings of Python's garbage collector for processes that compile models."""

from __future__ import annotations

import gc
from typing import Final

OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
"""Threshold of the garbage collector.

Python's default is 700 (2,000 from Python 3.13).
"""


def collect_rarely() -> None:
    """Run the garbage collector less often for the rest of this process.

    Compiled models are many small objects that stay in use, and each collection would scan them
    without freeing anything.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
