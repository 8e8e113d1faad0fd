"""Settings of Python's garbage collector for processes that compile models."""

from __future__ import annotations

import gc
from typing import Final

OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
"""Threshold of the garbage collector.

The default of 700 would scan the many small, long-lived objects of compiled models far too often.
"""


def collect_rarely() -> None:
    """Run the garbage collector of this process less often than Python does by default."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
